"""Small tensors gain nothing from threads, and lose much on a busy machine."""

import torch

torch.set_num_threads(1)
