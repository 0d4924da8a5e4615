"""Reason why a step takes as long as it does: from the GPU's peak to the measurement, causes, advice."""
