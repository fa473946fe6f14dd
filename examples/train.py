#!/usr/bin/env python3
"""A transformer's training loop in PyTorch, one process a GPU, as job scripts start it.

Nothing in it knows of slurm-mfu: kernels, collectives, matrix multiplications and training steps are seen from outside.
It says at its end what --mfu-profile=flops-per-step= would have to be; without that the MFU is that of the counted matrix
multiplications. Needs torch; runs on CPUs too (where there is nothing to profile), by default in a few seconds.
"""

import argparse
import os
import sys
import time

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit("train.py: PyTorch is missing (import torch)")


def environment(*names, default):
    """The first of the variables that is set: torchrun's, then Slurm's."""
    return int(next((os.environ[name] for name in names if name in os.environ), default))


class Model(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.embedding = nn.Embedding(options.vocab, options.hidden)
        block = nn.TransformerEncoderLayer(
            options.hidden, options.heads, 4 * options.hidden, dropout=0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, options.layers, enable_nested_tensor=False)
        self.head = nn.Linear(options.hidden, options.vocab, bias=False)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1]).to(tokens.device)
        return self.head(self.blocks(self.embedding(tokens), mask=mask))


def flops_per_step(options, world_size):
    """Forward and backward, all GPUs together: 6 a token for each weight of a matrix multiplication, and 12 x layers x
    hidden x sequence a token for attention, in full although the mask hides half of it: so most publications count."""
    weights = options.layers * 12 * options.hidden**2 + options.hidden * options.vocab
    token = 6 * weights + 12 * options.layers * options.hidden * options.seq
    return world_size * options.batch * options.seq * token


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in dict(layers=2, hidden=128, heads=4, seq=128, batch=4, vocab=1000, steps=20).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args()


def main():
    options = parse()
    rank = environment("RANK", "SLURM_PROCID", default=0)
    world_size = environment("WORLD_SIZE", "SLURM_NTASKS", default=1)
    cuda = torch.cuda.is_available()
    if cuda:
        # With --gpus-per-task a task sees its own GPU alone.
        torch.cuda.set_device(environment("LOCAL_RANK", "SLURM_LOCALID", default=0) % torch.cuda.device_count())
    device = "cuda" if cuda else "cpu"
    torch.manual_seed(rank)
    model = Model(options).to(device)
    if world_size > 1:
        torch.distributed.init_process_group("nccl" if cuda else "gloo", rank=rank, world_size=world_size)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())

    begin = time.time()
    for _ in range(options.steps):
        tokens = torch.randint(options.vocab, (options.batch, options.seq + 1), device=device)
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(tokens[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    loss = loss.item()  # waits for the device
    if rank == 0:
        seconds = (time.time() - begin) / options.steps
        print(f"{options.steps} steps of {seconds:.4f} s, loss {loss:.3f}")
        print(f"--mfu-profile=flops-per-step={flops_per_step(options, world_size)},precision=bf16")
    if world_size > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
