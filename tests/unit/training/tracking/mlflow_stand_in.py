"""The part of an MLflow server that deliveries use, in memory, with faults on demand."""

import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit


class RefusedError(Exception):
    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code


class StandIn:
    """Runs by id, points without repetition, models with versions and aliases."""

    def __init__(self):
        self.experiments, self.runs, self.models = {}, {}, {}
        self.requests = []
        self.headers = []
        # What is done with the requests from a number on: a function of handler and path.
        self.fault = None
        self._numbers = itertools.count(1)

    def answer(self, path, body):
        name = path.removeprefix("/api/2.0/mlflow/").replace("/", "_").replace("-", "_")
        self.requests.append(name)
        return getattr(self, name)(body)

    def experiments_get_by_name(self, body):
        if body["experiment_name"] not in self.experiments:
            raise RefusedError(404, "RESOURCE_DOES_NOT_EXIST")
        found = self.experiments[body["experiment_name"]]
        return {"experiment": {"experiment_id": found, "lifecycle_stage": "active"}}

    def experiments_create(self, body):
        return {"experiment_id": self.experiments.setdefault(body["name"], str(len(body["name"])))}

    def runs_search(self, body):
        identity = body["filter"].split("'")[1]
        found = [
            {"info": {"run_id": name, "start_time": 1}, "data": {"tags": run["tags"]}}
            for name, run in self.runs.items()
            if {"key": "trainfeed.identity", "value": identity} in run["tags"]
        ]
        return {"runs": found} if found else {}

    def runs_create(self, body):
        name = f"run{next(self._numbers)}"
        self.runs[name] = {
            "tags": body["tags"],
            "points": set(),
            "params": {},
            "inputs": [],
            "status": "RUNNING",
        }
        return {"run": {"info": {"run_id": name}}}

    def _run(self, body):
        if body["run_id"] not in self.runs:
            raise RefusedError(404, "RESOURCE_DOES_NOT_EXIST")
        return self.runs[body["run_id"]]

    def runs_log_batch(self, body):
        run = self._run(body)
        assert len(body.get("metrics", ())) <= 1000
        points = [
            (p["key"], p["step"], p["value"], p["timestamp"]) for p in body.get("metrics", ())
        ]
        run["points"].update(points)
        run["params"].update({p["key"]: p["value"] for p in body.get("params", ())})
        return {}

    def runs_log_inputs(self, body):
        inputs = self._run(body)["inputs"]
        inputs += [each["dataset"] for each in body["datasets"] if each["dataset"] not in inputs]
        return {}

    def runs_update(self, body):
        self._run(body)["status"] = body["status"]
        return {}

    def registered_models_create(self, body):
        if body["name"] in self.models:
            raise RefusedError(400, "RESOURCE_ALREADY_EXISTS")
        self.models[body["name"]] = {"versions": [], "aliases": {}}
        return {}

    def model_versions_search(self, body):
        _, name, _, version, _ = body["filter"].split("'")
        found = [
            {"version": str(number)}
            for number, each in enumerate(self.models[name]["versions"], 1)
            if {"key": "trainfeed.version", "value": version} in each["tags"]
        ]
        return {"model_versions": found} if found else {}

    def model_versions_create(self, body):
        self.models[body["name"]]["versions"].append(body)
        return {"model_version": {"version": str(len(self.models[body["name"]]["versions"]))}}

    def registered_models_alias(self, body):
        self.models[body["name"]]["aliases"][body["alias"]] = body["version"]
        return {}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self._do(dict(parse_qsl(urlsplit(self.path).query)))

    def do_POST(self):
        self._do(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _do(self, body):
        server, path = self.server.stand_in, urlsplit(self.path).path
        server.headers.append(dict(self.headers))
        if server.fault is not None and server.fault(self, path):
            return
        try:
            self.reply(200, server.answer(path, body))
        except RefusedError as error:
            self.reply(error.status, {"error_code": error.code, "message": "refused"})

    def reply(self, status, value, **headers):
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Write nothing."""


def start(stand_in):
    """Serve a stand-in on a free port of the loopback; return the server, to be shut down."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads, server.block_on_close = True, False
    server.stand_in = stand_in
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server
