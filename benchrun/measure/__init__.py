"""Step records + model shape -> step time, tokens/s/GPU, TFLOPS, MFU."""
