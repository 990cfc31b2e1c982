"""The service as a process, over TLS with a token: answers, limits, exchange, the end."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.unit.pipeline.conftest import make_project
from tests.unit.prediction.conftest import make_predicting
from tests.unit.processes import is_running, until
from tests.unit.serving.server.test_serve import certified
from trainfeed.serving.server import new_token
from trainfeed.training.models import rollback

pytestmark = pytest.mark.usefixtures("socket_enabled")
ROOT = Path(__file__).parents[3]


class Service:
    """A process that serves ``click_model@prod``, and a client of it."""

    def __init__(self, predicting, folder, *options):
        self.predicting = predicting
        _, certificate, key = certified(folder, "server")
        self.token = new_token(folder / "tokens.txt", "anna", scopes="predict,metrics")
        self.weak = new_token(folder / "tokens.txt", "bert", scopes="other")
        port_file = folder / "port"
        env = predicting.project.env
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "trainfeed", "serve", "click_model@prod",
                 "--tokens", folder / "tokens.txt", "--certificate", certificate, "--key", key,
                 "--port", "0", "--port-file", port_file, "--watch", "0.1", *options],
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": f"{ROOT}:{ROOT / 'include'}",
                    "TRAINFEED_ROOT": env.root,
                    "TRAINFEED_DATASETS": str(env.datasets),
                },
                stderr=log,
                stdout=log,
            )  # fmt: skip
        until(lambda: port_file.exists() or self.process.poll() is not None)
        assert port_file.exists(), self.log.read_text()
        self.http = self.client(f"https://localhost:{port_file.read_text().strip()}", certificate)

    def client(self, url, certificate):
        import ssl

        trust = ssl.create_default_context(cafile=certificate)
        return httpx.Client(base_url=url, verify=trust, timeout=120)

    def post(self, body, *, token=None, path="/v1/predict"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {token or self.token}"}
        return self.http.post(path, content=data, headers=headers)

    def predict(self, *values, **more):
        return self.post({"records": [{"value": value} for value in values], **more})

    def get(self, path):
        return self.http.get(path, headers={"authorization": f"Bearer {self.token}"})


@contextmanager
def serving(predicting, folder, *options):
    folder.mkdir()
    service = Service(predicting, folder, *options)
    try:
        yield service
    finally:
        service.http.close()
        service.process.send_signal(signal.SIGTERM)
        try:
            assert service.process.wait(60) == 0, service.log.read_text()
        finally:
            service.process.kill()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    predicting = make_predicting(make_project(tmp_path_factory.mktemp("project")))
    folder = tmp_path_factory.mktemp("service") / "one"
    options = ["--time-limit", "1", "--max-batch", "100", "--max-body", "20000"]
    with serving(predicting, folder, *options) as made:
        yield made


def doubles(answer):
    return [
        [each["double"] for each in row.get("predictions", ())] for row in answer.json()["results"]
    ]


def test_records_are_predicted_in_their_order_outside_of_the_web_process(service):
    answer = service.predict(1, 2.5)
    assert (answer.status_code, doubles(answer)) == (200, [[2.0], [5.0]])
    assert answer.json()["model"] == "click_model/v0001"
    pid = answer.json()["results"][0]["predictions"][0]["process"]
    assert pid not in (service.process.pid, os.getpid())
    body = {"records": ['{"value": 3, "copies": 2}'], "skip_bad": True}
    assert doubles(service.post(body)) == [[6.0, 6.0]]


@pytest.mark.parametrize(
    ("body", "status", "got"),
    [
        (b"no json", 400, "expected JSON: Expecting value"),
        (b'{"records": [NaN]}', 400, "NaN is no number of JSON"),
        (b"[]", 422, "a value of type list"),
        ({"records": []}, 422, "none"),
        ({"records": [{}], "more": 1}, 422, "1 other keys"),
        ({"records": [{}], "form": "other"}, 422, "a value of type str"),
        ({"records": [1, {"x": 1}], "form": "record"}, 422, "record 0: expected an object"),
        ({"records": ["x"] * 101}, 413, "101"),
        (b'{"records": ["' + b"x" * 30_000 + b'"]}', 413, "bytes"),
    ],
)
def test_a_body_that_holds_no_records_is_refused_with_the_reason(service, body, status, got):
    answer = service.post(body)
    assert answer.status_code == status
    assert got in answer.json()["got"]
    assert answer.json()["remedy"]


def test_records_without_a_prediction_are_refused_with_their_numbers_and_reasons(service):
    body = {"records": [{"value": 1}, "no json", {"value": -1}]}
    answer = service.post(body)
    assert answer.status_code == 422
    assert answer.json()["got"] == "2 of 3 without a prediction; results says why"
    one, two, three = answer.json()["results"]
    assert one["predictions"][0]["double"] == 2.0
    assert (two["index"], two["rejected"]) == (1, "not_json")
    assert (three["index"], three["filtered"]) == (2, "negative")
    assert service.post({**body, "skip_bad": True}).status_code == 200


def test_only_tokens_with_the_scope_get_an_answer(service):
    assert service.post({"records": [{}]}, token="wrong").status_code == 401
    assert service.post({"records": [{}]}, token=service.weak).status_code == 403
    assert service.http.get("/v1/model").status_code == 401
    assert service.http.get("/metrics").status_code == 401
    assert service.http.get("/healthz").status_code == 200


def test_code_that_raises_or_hangs_fails_its_request_and_no_other(service):
    before = service.predict(1).json()["results"][0]["predictions"][0]["process"]
    raised = service.predict(13)
    assert (raised.status_code, raised.json()["error"]) == (500, "PredictionError")
    assert "unlucky" not in raised.text
    with ThreadPoolExecutor(8) as pool:
        values = [1, 99, 2, 3, 4, 5]
        answers = list(pool.map(service.predict, values))
    assert [answer.status_code for answer in answers] == [200, 504, 200, 200, 200, 200]
    assert answers[1].json()["error"] == "PredictionTimeError"
    after = service.predict(1).json()["results"][0]["predictions"][0]["process"]
    assert after != before
    assert not is_running(before)


def test_the_metrics_have_percentiles_batches_and_the_queue(service):
    service.predict(1)
    text = service.get("/metrics").text
    for name in (
        "prediction_p50_seconds",
        "prediction_p99_seconds",
        "prediction_queue_records",
        "prediction_batch_records_bucket",
        "model_refused",
    ):
        assert f"trainfeed_{name}" in text


def test_a_promotion_under_load_loses_no_request_and_a_bad_version_changes_nothing(service):
    predicting = service.predicting

    def ask(number):
        answer = service.predict(number)
        return answer.status_code, answer.json().get("model"), doubles(answer)[0][0] / number

    def model():
        return service.get("/v1/model").json()

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask, 1 + n % 12) for n in range(40)]
        predicting.make("3", 2)
        until(lambda: model()["version"] == "v0002")
        asked += [pool.submit(ask, 1 + n % 12) for n in range(40)]
        predicting.make("not a number", 3)
        until(lambda: model()["refused"] is not None)
        asked += [pool.submit(ask, 1 + n % 12) for n in range(40)]
        answers = {each.result() for each in asked}
    assert answers == {(200, "click_model/v0001", 2.0), (200, "click_model/v0002", 3.0)}
    refused = model()["refused"]
    assert (refused["version"], refused["error"]) == ("v0003", "PredictionError")
    assert "could not convert string to float" in refused["message"]
    assert "trainfeed_model_refused 1" in service.get("/metrics").text
    rollback(predicting.folder, "why")
    until(lambda: model()["refused"] is None)
    rollback(predicting.folder, "why")
    until(lambda: model()["version"] == "v0001")
    assert doubles(service.predict(7)) == [[14.0]]


def test_an_end_while_a_version_is_being_opened_does_not_wait_for_it_and_leaves_no_process(
    tmp_path,
):
    predicting = make_predicting(make_project(tmp_path / "project"))
    opening = tmp_path / "opening"
    with serving(predicting, tmp_path / "service") as service:
        predicting.make(f"sleep {opening}", 2)
        pid = int(until(lambda: opening.exists() and opening.read_text()))
        assert is_running(pid)
        assert doubles(service.predict(1)) == [[2.0]]
    assert not is_running(pid)


def test_a_process_that_is_killed_while_nobody_asks_is_replaced(service):
    pid = service.predict(1).json()["results"][0]["predictions"][0]["process"]
    replaced = service.log.read_text().count("was replaced")
    os.kill(pid, signal.SIGKILL)
    until(lambda: service.log.read_text().count("was replaced") > replaced)
    until(lambda: service.http.get("/healthz").status_code == 200)
    assert doubles(service.predict(3)) == [[6.0]]
