"""DP-SGD for logistic regression on Adult, 60 epochs in batches of 256: ours whole, Opacus for some steps, in one run.

    python -m tests.benchmarks.dp_sgd

Both take Poisson samples of the same 36 177 dense rows on one thread, clip at sqrt(2) and add the same noise. Opacus is
timed twice: as it is used, with its own data loader, and for its steps alone on samples that are already tensors.
Needs Adult: UCI's files in the folder that EXPLORER_DATA_HOME names, or a network.
"""

import warnings
from time import perf_counter, process_time

import numpy as np
import torch
from opacus import PrivacyEngine

from explorer.datasets import adult
from explorer.learning import DPSGDClassifier

BATCH, EPOCHS, OPACUS_STEPS = 256, 60, 300


def ours(X, y, repetitions=5):
    """The fitted model, and the best wall and processor time of a whole fit, calibration included, in seconds."""
    times = []
    for seed in range(repetitions):
        start = perf_counter(), process_time()
        model = DPSGDClassifier(epsilon=1.0, batch_size=BATCH, epochs=EPOCHS, random_state=seed).fit(X, y)
        times.append((perf_counter() - start[0], process_time() - start[1]))
    return model, *np.min(times, axis=0)


def opacus(X, y, mechanism):
    """A private Linear(104, 1) with its optimiser and loader of Poisson samples."""
    dataset = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(y, dtype=torch.float64)[:, None])
    module = torch.nn.Linear(X.shape[1], 1, dtype=torch.float64)
    return PrivacyEngine().make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
        data_loader=torch.utils.data.DataLoader(dataset, batch_size=BATCH),
        noise_multiplier=mechanism.noise_multiplier,
        max_grad_norm=np.sqrt(2),
        poisson_sampling=True,
    )


def step_times(module, optimizer, samples):
    """Wall and processor time per step over `samples`, an iterable of pairs of tensors, in seconds."""
    loss, steps, start = torch.nn.BCEWithLogitsLoss(), 0, (perf_counter(), process_time())
    for X, y in samples:
        optimizer.zero_grad()
        loss(module(X), y).backward()
        optimizer.step()
        steps += 1
    return (perf_counter() - start[0]) / steps, (process_time() - start[1]) / steps


def several_epochs(loader, steps):
    """The first `steps` samples of as many epochs as it takes."""
    count = 0
    while True:
        for sample in loader:
            if count == steps:
                return
            count += 1
            yield sample


def main():
    """Print the table."""
    warnings.simplefilter("ignore")  # Opacus on secure mode and on torch's hooks
    torch.set_num_threads(1)
    data = adult()
    dense = np.ascontiguousarray(data.X_train.toarray())
    model, wall, processor = ours(dense, data.y_train)
    mechanism = model.privacy_.mechanism
    steps = mechanism.steps
    print(f"{mechanism}, accuracy {model.score(data.X_test, data.y_test):.4f}")
    rate = steps / processor
    print(f"ours, dense {wall:6.2f} s for {steps} steps ({processor:.2f} s processor), {rate:8.0f} steps/s processor")
    _, sparse_wall, sparse_processor = ours(data.X_train, data.y_train)
    print(f"ours, CSR   {sparse_wall:6.2f} s ({sparse_processor:.2f} s processor)")
    module, optimizer, loader = opacus(dense, data.y_train, mechanism)
    prepared = list(several_epochs(loader, OPACUS_STEPS))
    for name, samples in (("as it is", several_epochs(loader, OPACUS_STEPS)), ("steps alone", prepared)):
        their_wall, their_processor = step_times(module, optimizer, samples)
        print(
            f"Opacus {name:12s} {OPACUS_STEPS} steps timed, {1 / their_processor:8.0f} steps/s processor; "
            f"60 epochs would take {their_wall * steps:.1f} s ({their_processor * steps:.1f} s processor), "
            f"ratio {their_wall * steps / wall:.1f} ({their_processor * steps / processor:.1f} processor)"
        )


if __name__ == "__main__":
    main()
