"""Results of benchmark clients that several tests read."""

from pathlib import Path

LOGS = Path(__file__).parents[2] / "logs" / "serving"
TRTLLM_REPORT = {
    "request_info": {"num_requests": 100, "avg_input_length": 128, "avg_output_length": 128},
    "world_info": {"tp_size": 2, "pp_size": 1},
    "performance": {
        "request_throughput_req_s": 86.5373,
        "system_output_throughput_tok_s": 11076.77,
        "system_total_throughput_tok_s": 22153.54,
        "output_throughput_per_gpu_tok_s": 5538.385,
        "total_latency_ms": 1155.5715,
    },
    "streaming_metrics": {"ttft_percentiles": {"average": 162.6706, "p99": 232.4339}},
}
