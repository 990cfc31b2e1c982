"""``trainfeed.compat.plsc`` with PaddlePaddle: layers, heads, digits on one and two ranks."""

import base64
import contextlib
import io
import json
import os
import socket
import subprocess
import sys
from dataclasses import replace

import numpy as np
import paddle
import pytest
from PIL import Image

from tests.peers import made, plsc_digits
from trainfeed.compat.paddle import fluid
from trainfeed.compat.plsc.classifier import Head, Ranks
from trainfeed.compat.plsc.models import BaseModel
from trainfeed.compat.plsc.models.resnet import ResNet50
from trainfeed.compat.plsc.readers import Base64Images
from trainfeed.compat.plsc.settings import EntrySettings, LossType
from trainfeed.conversion.images import ImageOptions
from trainfeed.errors import ConfigError, SampleShapeError, StorageError
from trainfeed.files.stores.folder_manifest import TRANSFER_MANIFEST

paddle.base.core.set_num_threads(1)


def network(build):
    """Return a network whose ``call`` is ``build(is_train)``."""
    found = fluid.Network()
    paddle.seed(1)
    found.make(lambda: build(is_train=True))
    return found


def images(*shape):
    return paddle.to_tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def free_ports(number):
    with contextlib.ExitStack() as taken:
        servers = [
            taken.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)
        ]
        return [server.getsockname()[1] for server in servers]


def on_two_ranks(program, *arguments):
    """Run a program of this folder on two ranks; return the exit statuses and what was said."""
    master, *ports = free_ports(3)
    endpoints = [f"127.0.0.1:{port}" for port in ports]
    begun = []
    for rank, endpoint in enumerate(endpoints):
        environ = os.environ | {
            "PYTHONPATH": f"{made.ROOT}:{made.ROOT / 'include'}",
            "PADDLE_MASTER": f"127.0.0.1:{master}",
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_TRAINERS_NUM": "2",
            "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
            "PADDLE_CURRENT_ENDPOINT": endpoint,
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, str(made.ROOT / "tests/peers" / program), *map(str, arguments)]
        begun.append(
            subprocess.Popen(
                command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    try:
        said = [each.communicate(timeout=300)[0] for each in begun]
    finally:
        for each in begun:
            each.kill()
    return [each.returncode for each in begun], said


def trained_on_two(folder, *losses):
    """Train digits for four passes on two ranks; return what the ranks report for each head."""
    for loss in losses:
        (folder / loss).mkdir(parents=True, exist_ok=True)
    statuses, said = on_two_ranks("plsc_digits.py", folder, ",".join(losses), 4)
    assert statuses == [0, 0], said
    found = {}
    for loss in losses:
        both = [json.loads((folder / loss / f"{rank}.json").read_text()) for rank in range(2)]
        assert both[0] == both[1]
        found[loss] = both[0]
    return found


def test_layers_compute_what_those_of_paddle_compute():
    x = images(4, 6, 9, 9)

    def build(*, is_train):
        conv = fluid.layers.conv2d(x, 8, 3, stride=2, padding=1, groups=2, act="relu")
        norm = fluid.layers.batch_norm(conv, epsilon=2e-5, is_test=not is_train)
        slope = fluid.layers.prelu(norm, "channel")
        pool = fluid.layers.pool2d(slope, 2, "avg", 2)
        return fluid.layers.fc(fluid.layers.elementwise_add(pool, pool), 5)

    made_net = network(build)
    shapes = {name: tuple(each.shape) for name, each in made_net.parameters.items()}
    assert shapes == {
        "conv2d_0.w_0": (8, 3, 3, 3),
        "conv2d_0.b_0": (8,),
        "batch_norm_0.w_0": (8,),
        "batch_norm_0.b_0": (8,),
        "prelu_0.w_0": (8,),
        "fc_0.w_0": (32, 5),
        "fc_0.b_0": (5,),
    }
    own, nn = made_net.parameters, paddle.nn
    layers = [
        nn.Conv2D(6, 8, 3, 2, 1, groups=2),
        nn.ReLU(),
        nn.BatchNorm2D(8, epsilon=2e-5),
        nn.PReLU(8),
        nn.AvgPool2D(2, 2),
    ]
    layers[0].weight.set_value(own["conv2d_0.w_0"])
    layers[0].bias.set_value(own["conv2d_0.b_0"])
    dense = nn.Linear(32, 5)
    dense.weight.set_value(own["fc_0.w_0"])
    for is_train in (True, False):
        body = nn.Sequential(*layers)
        body.train() if is_train else body.eval()
        expected = dense(body(x).flatten(1) * 2) - dense.bias + own["fc_0.b_0"]
        got = made_net.call(lambda is_train=is_train: build(is_train=is_train))
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=0, atol=2e-5)


def test_statistics_move_in_training_only_and_begin_at_zero_and_one():
    x = images(16, 3) + 2

    def build(*, is_train):
        return fluid.layers.batch_norm(x, is_test=not is_train)

    made_net = network(build)
    mean, variance = (
        made_net.statistics["batch_norm_0.w_1"],
        made_net.statistics["batch_norm_0.w_2"],
    )
    assert (mean.tolist(), variance.tolist()) == ([0.0] * 3, [1.0] * 3)
    made_net.call(lambda: build(is_train=False))
    assert mean.tolist() == [0.0] * 3
    made_net.call(lambda: build(is_train=True))
    np.testing.assert_allclose(mean.numpy(), 0.1 * x.mean(0).numpy(), rtol=1e-5)


def test_a_parameter_that_no_step_would_train_is_refused():
    def build(*, is_train):
        return paddle.nn.Linear(3, 2)(fluid.layers.fc(images(2, 3), 3))

    with pytest.raises(ConfigError, match="got 2 made by other layers"):
        network(build)


def test_a_layer_that_the_first_call_had_not_is_refused():
    def build(*, is_train):
        values = fluid.layers.fc(images(2, 3), 3)
        return values if is_train else fluid.layers.fc(values, 3)

    made_net = network(build)
    with pytest.raises(ConfigError, match=r"the new parameter fc_1\.w_0"):
        made_net.call(lambda: build(is_train=False))


def test_layers_of_one_name_share_a_parameter():
    shared = fluid.ParamAttr(name="shared", initializer=fluid.initializer.Constant(2.0))

    def build(*, is_train):
        values = fluid.layers.fc(images(2, 3), 3, param_attr=shared, bias_attr=False)
        return fluid.layers.fc(values, 3, param_attr=shared, bias_attr=False)

    made_net = network(build)
    assert list(made_net.parameters) == ["shared"]
    assert made_net.parameters["shared"].numpy().tolist() == [[2.0] * 3] * 3


@pytest.mark.parametrize("uniform", [True, False])
def test_a_number_of_inputs_of_zero_is_left_out_as_in_the_original(uniform):
    """Paddle 3 makes such a matrix zero, and a network of it learns little."""
    xavier = fluid.initializer.Xavier(uniform=uniform, fan_in=0.0)

    def build(*, is_train):
        return fluid.layers.fc(images(2, 300), 200, param_attr=fluid.ParamAttr(initializer=xavier))

    values = network(build).parameters["fc_0.w_0"].numpy()
    assert abs(values.std() / (2 / 200) ** 0.5 - 1) < 0.02


def test_arcface_is_the_formula_of_its_paper():
    settings = EntrySettings(loss_type=LossType.ARCFACE, num_classes=7, margin=0.5, scale=16.0)
    head = Head.made(settings, Ranks(0, 1), 5)
    rng = np.random.default_rng(2)
    rows, labels = rng.standard_normal((6, 5)), rng.integers(0, 7, 6)
    weights = head.parameters["final_fc.w_0"].numpy().astype(float)
    cosines = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = cosines @ (weights / np.linalg.norm(weights, axis=0))
    own = np.arange(6), labels
    cosines[own] = np.cos(np.arccos(cosines[own]) + 0.5)
    logits = 16 * cosines
    losses = np.log(np.exp(logits).sum(1)) - logits[own]
    tensor = paddle.to_tensor(rows.astype(np.float32), stop_gradient=False)
    got = head.backward(tensor, paddle.to_tensor(labels), [6])
    assert abs(got - losses.mean()) < 1e-4
    assert np.isfinite(tensor.grad.numpy()).all()


def test_divided_heads_equal_whole_ones_and_ranks_that_differ_are_named(tmp_path):
    """Loss, logits, both gradients and the most likely classes; the whole head differentiates."""
    statuses, said = on_two_ranks("plsc_heads.py", tmp_path)
    assert statuses == [0, 0], said
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for each in found:
        for kind, differences in each["heads"].items():
            assert max(differences.values()) <= 1e-5, (kind, differences)
        assert "got ranks [0] at their end before the others at step 2" in each["uneven"]
    assert found[0]["curves"] == found[1]["curves"]
    for loss, losses in found[0]["curves"].items():
        whole = plsc_digits.entry(
            tmp_path / f"whole {loss}", loss.removeprefix("dist_"), plsc_digits.PlainNet(), 1
        )
        whole.set_train_batch_size(2 * plsc_digits.BATCH)
        whole.set_train_image_num(2 * plsc_digits.BATCH * 6)
        whole.train_reader = plsc_digits.samples(0, 2 * plsc_digits.BATCH * 6)
        np.testing.assert_allclose(losses, whole.train().losses, rtol=0, atol=1e-4)


@pytest.mark.parametrize("loss", ["softmax", "arcface"])
def test_digits_are_learnt_twice_alike_and_a_training_goes_on_exactly(tmp_path, loss):
    report = plsc_digits.entry(tmp_path / "a", loss).train()
    (accuracy,) = report.accuracies.values()
    assert accuracy >= 0.9
    again = plsc_digits.entry(tmp_path / "b", loss).train()
    assert again.losses == report.losses
    resumed = plsc_digits.entry(tmp_path / "c", loss)
    resumed.set_checkpoint_dir(str(tmp_path / "a" / "saved" / "0"))
    rest = resumed.train()
    assert rest.losses == report.losses[plsc_digits.NUM_TRAIN // plsc_digits.BATCH :]
    assert rest.accuracies == report.accuracies
    tested = plsc_digits.entry(tmp_path / "d", loss)
    tested.set_checkpoint_dir(str(tmp_path / "a" / "saved"))
    assert list(tested.test().accuracies.values()) == [accuracy]


def test_two_ranks_learn_digits_and_go_on_after_one_was_killed(tmp_path):
    whole = trained_on_two(tmp_path, *[kind.value for kind in LossType])
    for report in whole.values():
        (accuracy,) = report["accuracies"].values()
        assert accuracy >= 0.9
    expected = whole["dist_arcface"]
    (folder := tmp_path / "killed" / "dist_arcface").mkdir(parents=True)
    arguments = folder.parent, "dist_arcface", 4, 1500  # in the third pass
    statuses, said = on_two_ranks("plsc_digits.py", *arguments)
    assert statuses[1] == -9
    assert statuses[0] == 1
    assert "expected all 2 ranks to come to the same step" in said[0]
    saved = sorted(path.name for path in (folder / "saved").iterdir() if path.name.isdigit())
    assert saved == ["0", "1"]
    rest = trained_on_two(folder.parent, "dist_arcface")["dist_arcface"]
    steps = plsc_digits.NUM_TRAIN // plsc_digits.BATCH // 2
    assert rest["losses"] == expected["losses"][2 * steps :]
    assert rest["accuracies"] == expected["accuracies"]
    # The divided head is read by one rank, which holds all classes.
    alone = plsc_digits.entry(tmp_path / "alone", "arcface")
    alone.set_checkpoint_dir(str(folder / "saved"))
    assert dict(alone.test().accuracies) == expected["accuracies"]


def test_an_upload_that_failed_or_was_killed_is_all_that_a_second_training_does(
    tmp_path, monkeypatch
):
    def fails(*_):
        raise StorageError("the store is away")

    first = uploads(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("trainfeed.compat.plsc.entry.upload", fails)
        with pytest.raises(StorageError, match="away"):
            first.train()
    saved = tmp_path / "saved"
    trained_bytes = contents(saved)
    (saved / f"0.{'a' * 32}.tmp").mkdir()  # of a rank that was killed while it replaced 0
    again = uploads(tmp_path)
    again.set_checkpoint_dir(str(saved))
    report = again.train()
    assert (report.epochs, report.losses, report.checkpoint) == (0, (), saved / "0")
    assert contents(saved) == trained_bytes
    sent = contents(tmp_path / "store" / "model")
    del sent[TRANSFER_MANIFEST]
    assert sent == trained_bytes


def test_an_upload_that_is_continued_with_no_passes_left_needs_them_in_model_save_dir(
    trained, tmp_path
):
    made_entry = uploads(tmp_path)
    made_entry.set_checkpoint_dir(str(trained))
    with pytest.raises(ConfigError, match="fewer than 1 trained passes"):
        made_entry.train()
    assert not list((tmp_path / "store").iterdir())


def uploads(folder):
    """Return an entry of one pass that uploads ``folder/saved`` to ``folder/store/model``."""
    (folder / "store").mkdir(exist_ok=True)
    found = plsc_digits.entry(folder, epochs=1)
    found.set_with_test(False)
    found.set_hdfs_info("file://", "name,unused", str(folder / "store" / "model"))
    return found


def contents(folder):
    """Every name below a folder; the bytes of the files, None for folders."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def base64_row(n):
    points = np.repeat((plsc_digits.POINTS[n] * 15.9).astype(np.uint8)[..., None], 3, 2)
    Image.fromarray(points).save(file := io.BytesIO(), "PNG")
    return base64.b64encode(file.getvalue()) + b"\t%d\n" % plsc_digits.LABELS[n]


def base64_digits(folder, first, end):
    """Distribute digits as rows of base64 PNG to one rank, by the command; return their reader."""
    folder.mkdir()
    (folder / "part").write_bytes(b"".join(map(base64_row, range(first, end))))
    (folder / "file_list.txt").write_text("part\n")
    command = [sys.executable, "-m", "trainfeed", "process-base64", f"--data_dir={folder}"]
    environ = os.environ | {"PYTHONPATH": f"{made.ROOT}:{made.ROOT / 'include'}"}
    command += ["--file_list=file_list.txt", "--nranks=1"]
    subprocess.run(command, env=environ, check=True, capture_output=True)
    images = ImageOptions(shape=(8, 8), num_classes=10)
    return Base64Images(folder, images=images, seed=None)  # a mirrored digit is none


def test_base64_rows_of_digits_are_distributed_trained_on_tested_and_predicted(tmp_path):
    held_out = base64_digits(tmp_path / "held_out", plsc_digits.NUM_TRAIN, len(plsc_digits.LABELS))
    made_entry = plsc_digits.entry(tmp_path)
    made_entry.set_image_shape([3, 8, 8])
    made_entry.train_reader = base64_digits(tmp_path / "rows", 0, plsc_digits.NUM_TRAIN)
    made_entry.test_reader = held_out
    (accuracy,) = made_entry.train().accuracies.values()
    assert accuracy >= 0.9
    made_entry.set_checkpoint_dir(str(tmp_path / "saved"))
    assert list(made_entry.test().accuracies.values()) == [accuracy]
    images, labels = zip(*held_out(), strict=True)
    made_entry.predict_reader = lambda: iter(images)
    embeddings = made_entry.predict().embeddings
    assert embeddings.shape == (len(images), plsc_digits.EMB_DIM)
    # The mean embedding that is the nearest is that of the class.
    means = np.stack([embeddings[np.equal(labels, n)].mean(0) for n in range(10)])
    nearest = ((embeddings[:, None] - means) ** 2).sum(2).argmin(1)
    assert (nearest == np.array(labels)).mean() >= 0.9


def test_a_prediction_needs_no_head_and_gives_each_image_its_embedding(tmp_path):
    plsc_digits.entry(tmp_path, epochs=1).train()
    made_entry = plsc_digits.entry(tmp_path / "converted")
    made_entry.set_checkpoint_dir(str(tmp_path / "saved"))
    made_entry.predict_reader = lambda: iter(plsc_digits.IMAGES[:130])
    embeddings = made_entry.predict().embeddings
    assert embeddings.shape == (130, plsc_digits.EMB_DIM)
    assert embeddings.dtype == np.float32
    folder = made_entry.convert_for_prediction().checkpoint
    assert {path.name for path in folder.iterdir()} == {
        "checkpoint.json",
        "meta.json",
        "network.npz",
    }
    made_entry.set_checkpoint_dir(str(folder))
    assert made_entry.predict().embeddings.tobytes() == embeddings.tobytes()
    with pytest.raises(ConfigError, match="loss_type"):
        made_entry.test()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda e: e.set_class_num(11), "'num_classes': 11"),
        (lambda e: e.set_loss_type("arcface"), "'loss_type': 'arcface'"),
        (lambda e: e.set_model(ResNet50(emb_dim=16)), "'emb_dim': 16"),
        (lambda e: e.set_train_epochs(1), "fewer than 1 trained passes"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(trained, tmp_path, change, said):
    made_entry = plsc_digits.entry(tmp_path)
    made_entry.set_checkpoint_dir(str(trained))
    change(made_entry)
    with pytest.raises(ConfigError, match=said):
        made_entry.train()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a training of one pass."""
    folder = tmp_path_factory.mktemp("trained")
    plsc_digits.entry(folder, epochs=1).train()
    return folder / "saved"


@pytest.mark.parametrize(
    "made_by",
    [
        fluid.optimizer.SGD(0.05),
        fluid.optimizer.Adam(0.002, regularization=fluid.regularizer.L2Decay(1e-4)),
        lambda parameters: paddle.optimizer.Momentum(
            paddle.optimizer.lr.StepDecay(0.05, 10), 0.9, parameters
        ),
    ],
    ids=["sgd", "adam", "scheduler"],
)
def test_an_optimizer_of_the_user_goes_on_exactly(tmp_path, made_by):
    def entry(folder):
        found = plsc_digits.entry(folder, epochs=2)
        found.set_optimizer(made_by)
        found.set_with_test(False)
        return found

    whole = entry(tmp_path / "a").train()
    assert whole.losses[-1] < whole.losses[0] / 2
    rest = entry(tmp_path / "b")
    rest.set_checkpoint_dir(str(tmp_path / "a/saved/0"))
    assert rest.train().losses == whole.losses[plsc_digits.NUM_TRAIN // plsc_digits.BATCH :]


def test_the_default_network_has_fifty_layers():
    with paddle.utils.unique_name.guard():
        found = network(
            lambda *, is_train: ResNet50(16).build_network(images(2, 3, 16, 16), None, is_train)
        )
    named = [name for name in found.parameters if name.endswith(".w_0")]
    convolutions = [name for name in named if name.startswith("conv2d")]
    shortcuts = 4  # their convolutions are not counted as layers
    assert len(convolutions) - shortcuts + len([n for n in named if n.startswith("fc")]) == 50


def test_a_loss_that_is_not_finite_ends_the_training(tmp_path):
    class Overflowing(plsc_digits.PlainNet):
        def build_network(self, input, label, is_train):  # noqa: A002
            return super().build_network(input, label, is_train) * np.inf

    made_entry = plsc_digits.entry(tmp_path, model=Overflowing(), epochs=1)
    with pytest.raises(ConfigError, match="expected a finite loss"):
        made_entry.train()


def test_images_that_are_not_finite_end_the_training(tmp_path):
    made_entry = plsc_digits.entry(tmp_path, epochs=1)
    made_entry.train_reader = lambda: ((image * np.inf, 1) for image in plsc_digits.IMAGES)
    with pytest.raises(SampleShapeError, match="expected finite images"):
        made_entry.train()


def test_a_network_that_returns_no_embedding_is_refused_before_the_training(tmp_path):
    class Wrong(BaseModel):
        def build_network(self, input, label, is_train):  # noqa: A002, ARG002
            return fluid.layers.conv2d(input, 4, 3)

    made_entry = plsc_digits.entry(tmp_path)
    made_entry.set_model(Wrong())
    with pytest.raises(ConfigError, match="build_network of Wrong to return embeddings"):
        made_entry.train()
    assert not list((tmp_path / "saved").iterdir())


def first_weights(settings, ranks):
    paddle.seed(0)
    with paddle.utils.unique_name.guard():
        return Head.made(settings, ranks, 4).parameters["final_fc.w_0"].numpy()


def test_a_network_is_equal_in_two_settings_of_ranks():
    """The columns of a divided head are those that the whole head begins with."""
    settings = EntrySettings(loss_type=LossType.DIST_SOFTMAX, num_classes=9, world_size=2)
    parts = [first_weights(settings, Ranks(rank, 2)) for rank in range(2)]
    whole = first_weights(replace(settings, loss_type=LossType.SOFTMAX), Ranks(0, 1))
    assert np.concatenate(parts, axis=1).tolist() == whole.tolist()
