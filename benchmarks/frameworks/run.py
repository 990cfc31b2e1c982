"""The cost of a framework's wiring beside the plain loader: seconds of an epoch, in turns.

Prints one row of a table per wiring and number of workers. A wiring has a process of its own; a
trainer is measured over batches that are ready in memory, too, because it does more than read.
"""

import importlib.metadata
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from trainfeed import adapters
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.recordio import RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec

SCHEMA = Schema((Field("image", "uint8", (784,)), Field("label", "int64")))
NUM_SAMPLES, BATCH, ROUNDS = 60_000, 128, 5
Epoch: TypeAlias = Callable[[], Any]


def consume(batches: Any) -> int:
    """Read an epoch; the sum shows that the batches are there."""
    return sum(int(batch["label"][0]) for batch in batches)


def _torch(loader: Any) -> Epoch:
    import torch.utils.data

    batches = torch.utils.data.DataLoader(adapters.torch(loader), batch_size=None)
    return lambda: consume(batches)


def _torchdata(loader: Any) -> Epoch:
    from torchdata.stateful_dataloader import StatefulDataLoader

    batches = StatefulDataLoader(adapters.torch(loader), batch_size=None)
    return lambda: consume(batches)


def _accelerate(loader: Any) -> Epoch:
    from accelerate import Accelerator

    batches = adapters.accelerate(loader, Accelerator(cpu=True))
    return lambda: consume(batches)


def _adapter(name: str) -> Callable[[Any], Epoch]:
    def wire(loader: Any) -> Epoch:
        batches = getattr(adapters, name)(loader)
        return lambda: consume(batches)

    return wire


def _lightning(loader: Any) -> Epoch:
    import lightning
    import torch.utils.data

    class Module(lightning.LightningModule):
        automatic_optimization = False

        def training_step(self, batch: Any, _: int) -> None:
            int(batch["label"][0])

        def configure_optimizers(self) -> None:
            pass

    if isinstance(loader, DataLoader):
        batches = adapters.torch(loader)
    else:  # a bare list would be one of loaders for Lightning
        batches = torch.utils.data.DataLoader(loader, batch_size=None)

    def epoch() -> None:
        quiet = dict.fromkeys(
            ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False
        )
        lightning.Trainer(accelerator="cpu", devices=1, max_epochs=1, **quiet).fit(
            Module(), batches
        )

    return epoch


def _trainer(loader: Any) -> Epoch:
    import torch
    import transformers

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))

        def forward(self, image: Any, label: Any) -> Any:  # noqa: ARG002
            return {"loss": self.weight * label[0]}

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self) -> Any:
            if isinstance(loader, DataLoader):
                return adapters.accelerate(loader, self.accelerator)
            return loader

    settings = transformers.TrainingArguments(
        tempfile.mkdtemp(),
        num_train_epochs=1,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
    )
    return lambda: Trainer(model=Model(), args=settings).train()


WIRINGS = {
    "adapters.torch": (_adapter("torch"), "torch"),
    "torch DataLoader(adapter, None)": (_torch, "torch"),
    "StatefulDataLoader(adapter, None)": (_torchdata, "torchdata"),
    "adapters.accelerate": (_accelerate, "accelerate"),
    "Lightning Trainer over the adapter": (_lightning, "lightning"),
    "HF Trainer, adapters.accelerate": (_trainer, "transformers"),
    "adapters.jax": (_adapter("jax"), "jax"),
    "adapters.tensorflow": (_adapter("tensorflow"), "tensorflow-cpu"),
    "adapters.paddle": (_adapter("paddle"), "paddlepaddle"),
}


def write(path: str) -> None:
    """Write the samples."""
    codec, rng = TypedCodec(SCHEMA), np.random.default_rng(0)
    with RecordWriter(path) as writer:
        for n in range(NUM_SAMPLES):
            image = rng.integers(0, 255, 784, np.uint8)
            writer.write(codec.encode({"image": image, "label": n}))


def seconds(epoch: Epoch) -> float:
    """How long an epoch took."""
    start = time.perf_counter()
    epoch()
    return time.perf_counter() - start


def measure(path: str, name: str, num_workers: int) -> None:
    """Print the row of one wiring: medians of rounds in which all take turns."""
    wire, package = WIRINGS[name]

    def made() -> DataLoader:
        files = RecordFiles(path, SCHEMA)
        return DataLoader(files, BATCH, shuffle=True, num_workers=num_workers)

    with made() as plain, made() as wired:
        epochs = [lambda: consume(plain), wire(wired)]
        if package in {"lightning", "transformers"}:
            epochs.append(wire(list(adapters.torch(made()))))
        for epoch in epochs:
            epoch()
        rounds = [[seconds(epoch) for epoch in epochs] for _ in range(ROUNDS)]
    (alone, through, *ready) = (statistics.median(each) for each in zip(*rounds, strict=True))
    shown = f"{ready[0]:.2f}" if ready else ""
    version = importlib.metadata.version(package)
    print(
        f"| {package} {version} | {name} | {num_workers} | {alone:.3f} | {through:.3f} |"
        f" {through - alone:+.3f} | {shown} |",
        flush=True,
    )


def main() -> None:
    """Measure every wiring in a process of its own."""
    if len(sys.argv) == 4:
        measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "r")
        write(path)
        print("| package | wiring | workers | plain, s | through it, s | more, s | ready, s |")
        print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
        for name in WIRINGS:
            for num_workers in ("0", "2"):
                done = subprocess.run(
                    [sys.executable, __file__, path, name, num_workers],
                    stderr=subprocess.PIPE,
                    check=False,
                )
                if done.returncode:
                    sys.exit(done.stderr.decode())


if __name__ == "__main__":
    main()
