"""What a training job costs beside its training."""
