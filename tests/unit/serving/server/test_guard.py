"""What stands before every route: token, scope, limits, one clear answer, audit."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from tests.unit.serving.server.guarded import ask, client, made, routes
from trainfeed.errors import ConfigError
from trainfeed.serving.server import Limits, ServerSettings, make_app, new_token


def refused(answer, status, error):
    found = answer.json()
    assert answer.status_code == status
    assert found["error"] == error
    assert set(found) == {"error", "expected", "got", "remedy", "request"}
    assert "Traceback" not in answer.text
    return found


def test_only_the_state_of_health_is_free(tmp_path):
    app, token, _ = made(tmp_path, limits=Limits(denials_per_second=100))
    paths = {(method, route.path) for route in app.routes for method in route.methods}
    assert {path for _, path in paths} == {
        "/echo", "/slow", "/broken", "/wrong", "/form", "/healthz", "/metrics",
    }  # fmt: skip
    for method, path in paths:
        answer = ask(app, None, method, path)
        assert answer.status_code == (200 if path == "/healthz" else 401), path
    for path in ("/docs", "/openapi.json", "/redoc", "/nothing"):
        refused(ask(app, None, "GET", path), 401, "TokenRefused")
        refused(ask(app, token, "GET", path), 404, "NotFound")


def test_a_token_lets_a_request_through(tmp_path):
    app, token, _ = made(tmp_path)
    assert ask(app, token, "POST", "/echo", content=b"1234").json() == {"who": "anna", "bytes": 4}


@pytest.mark.parametrize("token", ["wrong", "", "x" * 5000, "\xe9"])
def test_another_token_is_refused(tmp_path, token):
    app, _, _ = made(tmp_path)
    answer = ask(app, token, "GET", "/wrong")
    refused(answer, 401, "TokenRefused")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_two_authorizations_are_none(tmp_path):
    app, token, _ = made(tmp_path)

    async def asked():
        async with client(app) as http:
            header = ("authorization", f"Bearer {token}")
            return await http.get("/wrong", headers=[header, header])

    refused(asyncio.run(asked()), 401, "TokenRefused")


def test_an_expired_token_is_refused(tmp_path):
    app, token, _ = made(tmp_path, expires=datetime(2020, 1, 1, tzinfo=UTC))
    assert refused(ask(app, token, "GET", "/wrong"), 401, "TokenRefused")["got"] == "an expired one"


def test_a_token_without_the_scope_is_refused(tmp_path):
    app, token, _ = made(tmp_path, scopes="metrics")
    refused(ask(app, token, "POST", "/echo"), 403, "ScopeMissing")
    assert ask(app, token, "GET", "/metrics").status_code == 200


def test_a_line_that_is_removed_ends_the_token_at_once(tmp_path):
    app, token, settings = made(tmp_path)
    assert ask(app, token, "POST", "/echo").status_code == 200
    other = new_token(tmp_path / "others.txt", "bert", scopes="*")
    settings.token_file.write_bytes((tmp_path / "others.txt").read_bytes())
    refused(ask(app, token, "POST", "/echo"), 401, "TokenRefused")
    assert ask(app, other, "POST", "/echo").status_code == 200


def test_a_token_file_that_became_unreadable_lets_no_request_through(tmp_path):
    app, token, settings = made(tmp_path)
    good = settings.token_file.read_bytes()
    settings.token_file.write_bytes(good + b"half a li")
    for _ in range(2):
        refused(ask(app, token, "POST", "/echo"), 503, "TokensUnreadable")
    settings.token_file.unlink()
    refused(ask(app, token, "POST", "/echo"), 503, "TokensUnreadable")
    settings.token_file.write_bytes(good)
    settings.token_file.chmod(0o600)
    assert ask(app, token, "POST", "/echo").status_code == 200


def test_a_body_that_is_announced_too_large_is_refused(tmp_path):
    app, token, _ = made(tmp_path, limits=Limits(body_bytes=1000))
    assert ask(app, token, "POST", "/echo", content=b"x" * 1000).status_code == 200
    found = refused(ask(app, token, "POST", "/echo", content=b"x" * 1001), 413, "BodyTooLarge")
    assert (found["expected"], found["got"]) == ("a body of at most 1000 bytes", "1001 bytes")


def test_a_body_of_unknown_size_is_refused_while_it_comes(tmp_path):
    app, token, _ = made(tmp_path, limits=Limits(body_bytes=1000))

    async def parts():
        for _ in range(30):
            yield b"x" * 100

    refused(ask(app, token, "POST", "/echo", content=parts()), 413, "BodyTooLarge")


def test_a_request_that_takes_too_long_is_ended(tmp_path):
    app, token, _ = made(tmp_path, limits=Limits(request_seconds=0.05))
    refused(ask(app, token, "GET", "/slow"), 504, "TimeLimit")


def held(app, *requests, then):
    """Answers to ``then``, while requests with a token and a method and path wait."""

    async def asked():
        async with client(app) as http:
            slow = [
                asyncio.create_task(http.get("/slow", headers={"authorization": f"Bearer {each}"}))
                for each in requests
            ]
            for _ in range(10):
                await asyncio.sleep(0)
            answers = [
                await http.request(*each[1:], headers={"authorization": f"Bearer {each[0]}"})
                for each in then
            ]
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)
            return answers

    return asyncio.run(asked())


def test_one_name_gets_half_of_the_places_and_others_are_served(tmp_path):
    app, token, settings = made(tmp_path, limits=Limits(requests=4))
    other = new_token(settings.token_file, "bert", scopes="*")
    ask_more = [(token, "POST", "/echo"), (other, "POST", "/echo"), (token, "GET", "/healthz")]
    own, of_other, health = held(app, *[token] * 4, then=ask_more)
    refused(own, 429, "TooManyRequests")
    assert own.headers["retry-after"] == "1"
    assert (of_other.status_code, health.status_code) == (200, 200)


def test_one_request_too_many_of_all_names_is_refused(tmp_path):
    app, token, settings = made(tmp_path, limits=Limits(requests=2))
    others = [new_token(settings.token_file, name, scopes="*") for name in ("bert", "carla")]
    (answer,) = held(app, token, others[0], then=[(others[1], "POST", "/echo")])
    refused(answer, 503, "Overloaded")
    assert answer.headers["retry-after"] == "1"


def test_bodies_of_refused_requests_that_never_come_take_no_place_of_other_requests(tmp_path):
    app, token, _ = made(tmp_path, limits=Limits(requests=2))
    headers = [(b"content-length", b"1")]
    scope = {"type": "http", "method": "POST", "path": "/echo", "headers": headers}
    waiting = asyncio.Semaphore(0)

    async def never():
        waiting.release()
        await asyncio.Event().wait()

    async def asked():
        refused = [asyncio.create_task(app(dict(scope), never, None)) for _ in range(2)]
        for _ in refused:
            await waiting.acquire()
        async with client(app) as http:
            http.headers["authorization"] = f"Bearer {token}"
            answers = [await http.post("/echo"), await http.get("/metrics")]
        for task in refused:
            task.cancel()
        await asyncio.gather(*refused, return_exceptions=True)
        return answers

    answer, metrics = asyncio.run(asked())
    assert answer.status_code == 200
    assert "\ntrainfeed_requests_in_work 1\n" in metrics.text


def test_a_caller_above_its_rate_is_refused_and_others_are_not(tmp_path):
    app, token, settings = made(tmp_path, limits=Limits(requests_per_second=0.01, burst=2))
    other = new_token(settings.token_file, "bert", scopes="*")

    async def asked():
        async with client(app) as http:
            return [
                await http.post("/echo", headers={"authorization": f"Bearer {each}"})
                for each in (token, token, token, other)
            ]

    *good, bad, of_other = asyncio.run(asked())
    assert [answer.status_code for answer in (*good, of_other)] == [200, 200, 200]
    refused(bad, 429, "TooManyRequests")
    assert int(bad.headers["retry-after"]) > 1


def test_guesses_of_tokens_are_slowed_down(tmp_path):
    app, token, _ = made(tmp_path, limits=Limits(denials_per_second=2))
    answers = [ask(app, "wrong", "POST", "/echo").status_code for _ in range(4)]
    assert answers[:2] == [401, 401]
    assert 429 in answers[2:]
    assert ask(app, token, "POST", "/echo").status_code == 200


def test_an_error_inside_shows_nothing_of_the_inside(tmp_path, caplog):
    app, token, _ = made(tmp_path)
    answer = ask(app, token, "GET", "/broken")
    found = refused(answer, 500, "InternalError")
    assert "inside" not in answer.text
    assert found["request"] in caplog.text
    assert "a word of the inside" in caplog.text


def test_an_error_of_trainfeed_becomes_an_answer_without_secrets(tmp_path):
    app, token, _ = made(tmp_path)
    answer = ask(app, token, "GET", "/wrong")
    assert refused(answer, 400, "ConfigError")["got"] == "expected a data set, got password=***"


def test_a_parameter_of_another_form_is_named_and_not_repeated(tmp_path):
    app, token, _ = made(tmp_path)
    answer = ask(app, token, "POST", "/form?number=hunter2")
    assert "query.number" in refused(answer, 422, "InvalidRequest")["got"]
    assert "hunter2" not in answer.text


def test_another_method_is_refused_as_json(tmp_path):
    app, token, _ = made(tmp_path)
    refused(ask(app, token, "DELETE", "/echo"), 405, "MethodNotAllowed")


def test_the_audit_says_that_a_long_path_is_cut(tmp_path):
    app, token, settings = made(tmp_path)
    ask(app, token, "GET", f"/{'x' * 250}")
    what = json.loads(settings.audit_log.read_text())["what"]
    assert what == f"GET /{'x' * 199} … 51 more characters"


def test_the_audit_has_a_line_per_request_and_neither_payload_nor_token(tmp_path):
    app, token, settings = made(tmp_path)
    ask(app, token, "POST", "/echo?key=hunter2", content=b"payload")
    ask(app, "wrongtoken", "POST", "/echo", content=b"payload")
    ask(app, None, "GET", "/healthz")
    text = settings.audit_log.read_text()
    done, denied = map(json.loads, text.splitlines())
    assert (done["who"], done["what"], done["status"]) == ("anna", "POST /echo", 200)
    assert (done["outcome"], done["bytes_in"]) == ("done", 7)
    assert done["bytes_out"] > 0
    assert (denied["who"], denied["outcome"], denied["status"]) == ("-", "TokenRefused", 401)
    for word in ("payload", token, "wrongtoken", "hunter2"):
        assert word not in text
    assert settings.audit_log.stat().st_mode & 0o777 == 0o600


def test_metrics_count_requests_by_route_and_status(tmp_path):
    app, token, _ = made(tmp_path)
    ask(app, token, "POST", "/echo")
    ask(app, token, "GET", "/nothing/anyone/types")
    text = ask(app, token, "GET", "/metrics").text
    assert 'trainfeed_requests_total{route="/echo",status="200"} 1' in text
    assert 'trainfeed_requests_total{route="unknown",status="404"} 1' in text
    assert 'trainfeed_request_seconds_bucket{route="/echo",le="+Inf"} 1' in text


def test_a_route_without_a_scope_is_refused_at_the_start(tmp_path):
    new_token(tmp_path / "tokens.txt", "anna", scopes="*")
    with pytest.raises(ConfigError, match="expected a scope for each of the routes"):
        make_app(routes(), ServerSettings(tmp_path / "tokens.txt"), scopes={"/echo": "talk"})


def test_no_web_socket_is_let_through(tmp_path):
    app, _, _ = made(tmp_path)
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "websocket", "path": "/echo", "headers": []}
    asyncio.run(app(scope, None, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_a_torn_answer_is_no_answer(tmp_path):
    app, token, settings = made(tmp_path, limits=Limits(request_seconds=0.05))

    async def endless(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.Event().wait()

    app.router.routes[0].app = endless
    with pytest.raises(Exception, match="TimeLimit"):
        ask(app, token, "POST", "/echo")
    assert json.loads(settings.audit_log.read_text())["outcome"] == "TimeLimit"


def test_a_limit_of_zero_is_refused():
    with pytest.raises(ConfigError, match="body_bytes to be above 0, got 0"):
        Limits(body_bytes=0)
