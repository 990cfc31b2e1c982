"""Errors of the client become errors of trainfeed."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from trainfeed.errors import (
    ConfigError,
    IngestError,
    OffsetOutOfRangeError,
    Outcome,
    SourceReplacedError,
    SourceUnreachableError,
    TopicNotFoundError,
    TrainFeedError,
)
from trainfeed.sources.kafka_client import _MEANING, _PASSING, ClientErrors, is_passing

WHERE = "topic 'flights' partition 0 offsets [0, 10)"


@pytest.fixture
def errors():
    return ClientErrors("broker-1:9092", ("canary-5d1f",))


def codes():
    """Name → code of every error that the library knows."""
    found = {name: getattr(KafkaError, name) for name in dir(KafkaError) if name.isupper()}
    return {name: code for name, code in found.items() if isinstance(code, int) and code}


def raised(errors, exception):
    with pytest.raises(TrainFeedError) as info, errors.map_errors(WHERE):
        raise exception
    return info.value


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("UNKNOWN_TOPIC_OR_PART", TopicNotFoundError),
        ("_UNKNOWN_TOPIC", TopicNotFoundError),
        ("_UNKNOWN_PARTITION", TopicNotFoundError),
        ("TOPIC_EXCEPTION", TopicNotFoundError),
        ("UNKNOWN_TOPIC_ID", SourceReplacedError),
        ("INCONSISTENT_TOPIC_ID", SourceReplacedError),
        ("OFFSET_OUT_OF_RANGE", OffsetOutOfRangeError),
        ("_AUTO_OFFSET_RESET", OffsetOutOfRangeError),
        ("_LOG_TRUNCATION", OffsetOutOfRangeError),
        ("TOPIC_AUTHORIZATION_FAILED", ConfigError),
        ("SASL_AUTHENTICATION_FAILED", ConfigError),
        ("_AUTHENTICATION", ConfigError),
        ("_INVALID_ARG", ConfigError),
        ("_SSL", ConfigError),
        ("UNSUPPORTED_VERSION", ConfigError),
        ("_TRANSPORT", SourceUnreachableError),
        ("_ALL_BROKERS_DOWN", SourceUnreachableError),
        ("_TIMED_OUT", SourceUnreachableError),
        ("_RESOLVE", SourceUnreachableError),
        ("_BAD_MSG", IngestError),
        ("_BAD_COMPRESSION", IngestError),
        ("INVALID_MSG", IngestError),
        ("NOT_LEADER_FOR_PARTITION", SourceUnreachableError),
        ("KAFKA_STORAGE_ERROR", SourceUnreachableError),
        ("COORDINATOR_LOAD_IN_PROGRESS", IngestError),
    ],
)
def test_an_error_becomes_what_a_caller_can_act_on(errors, name, expected):
    error = raised(errors, KafkaException(KafkaError(codes()[name])))
    assert type(error) is expected
    assert str(error).startswith(f"{WHERE} at brokers broker-1:9092: ")
    assert f"({name})" in str(error)
    assert isinstance(error.__cause__, KafkaException)


def test_every_error_of_the_library_is_mapped(errors):
    kinds = {IngestError, SourceUnreachableError, *_MEANING}
    for code in codes().values():
        assert type(raised(errors, KafkaException(KafkaError(code)))) in kinds


def test_every_name_in_the_tables_is_one_of_the_library():
    named = [name for names in _MEANING.values() for name in names]
    assert len(named) == len(set(named))
    assert {*named, *_PASSING} <= codes().keys()


def test_what_the_client_recovers_from_is_tried_again_when_it_lasts(errors):
    for name in _PASSING:
        error = KafkaError(codes()[name])
        assert is_passing(error)
        assert raised(errors, KafkaException(error)).outcome is Outcome.RETRY


@pytest.mark.parametrize("name", ["_BAD_MSG", "_AUTO_OFFSET_RESET", "UNKNOWN_TOPIC_OR_PART"])
def test_what_loses_records_is_never_waited_out(name):
    """KA-21, KA-24: the client would go on behind a damaged batch."""
    assert not is_passing(KafkaError(codes()[name]))


def test_a_time_out_tells_what_the_client_reported_last(errors):
    errors.collect(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    errors.collect(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    for exception in (TimeoutError(), KafkaException(KafkaError(KafkaError._TIMED_OUT))):
        error = raised(errors, exception)
        assert type(error) is SourceUnreachableError
        assert "connection refused (_TRANSPORT)" in str(error)


def test_a_time_out_after_a_refused_login_is_a_setting_to_change(errors):
    errors.collect(KafkaError(KafkaError._AUTHENTICATION, "invalid password"))
    assert type(raised(errors, TimeoutError())) is ConfigError


def test_a_group_that_is_never_joined_needs_no_permission(errors):
    """KA-20: reading the topic is all that is asked for."""
    denied = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
    assert is_passing(denied)
    errors.collect(denied)
    assert "no answer in time (_TIMED_OUT)" in str(raised(errors, TimeoutError()))


def test_an_answer_ends_the_blame(errors):
    errors.collect(KafkaError(KafkaError._AUTHENTICATION, "invalid password"))
    errors.clear()
    assert type(raised(errors, TimeoutError())) is SourceUnreachableError


def test_a_definite_answer_is_not_blamed_on_an_earlier_report(errors):
    errors.collect(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    missing = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    assert type(raised(errors, missing)) is TopicNotFoundError


def test_secrets_stand_in_no_message(errors):
    """SE-20."""
    leaky = KafkaError(KafkaError._AUTHENTICATION, "no user with password canary-5d1f")
    assert "password ***" in str(raised(errors, KafkaException(leaky)))


def test_errors_of_ours_pass_unchanged(errors):
    assert str(raised(errors, TopicNotFoundError("as it was"))) == "as it was"
