"""tqdm's bars: `format_meter` and `format_interval` of tqdm.std."""

BLOCKS = " ▏▎▍▌▋▊▉█"


def clock(seconds: float) -> str:
    """Seconds as tqdm writes them: MM:SS or H:MM:SS, without fractions."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute:02d}:{second:02d}"


def meter(done: int, total: int, width: int = 10) -> str:
    """The bar of ``width`` characters."""
    full, rest = divmod(int(done / total * width * 8), 8)
    return ("█" * full + (BLOCKS[rest] if full < width else "")).ljust(width)[:width]


def rate(seconds: float) -> str:
    """Seconds per step, as s/it or it/s, whichever is above 1."""
    return f"{seconds:5.2f}s/it" if seconds > 1 else f"{1 / seconds:5.2f}it/s"


def bar(done: int, total: int, elapsed: float, seconds: float, describe: str = "") -> str:
    """One bar, without the carriage return before it."""
    left = clock((total - done) * seconds)
    share = f"{100 * done / total:3.0f}%"
    times = f"[{clock(elapsed)}<{left}, {rate(seconds)}]"
    return f"{describe}{share}|{meter(done, total)}| {done}/{total} {times}"
