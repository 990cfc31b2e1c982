"""The options of a build that say where preprocessing runs."""

import pytest

from tests.unit.cli.conftest import cli
from trainfeed.cli.build import Engine, engine_options, with_engine

__all__ = ["cli"]


def test_what_is_not_asked_for_stays_as_the_specification_says(project):
    project.edit("input: record}", "input: record, engine: spark, connection: spark_prod}")
    spec = project.spec
    assert with_engine(spec, None, None).preprocess == spec.preprocess
    asked = with_engine(spec, None, "spark_test").preprocess
    assert (asked.engine, asked.connection) == ("spark", "spark_test")
    assert with_engine(spec, Engine.LOCAL, None).preprocess.engine == "local"


@pytest.mark.parametrize(
    ("engine", "connection", "options"),
    [
        (None, None, ["--engine=local"]),
        (Engine.SPARK, None, ["--engine=spark", "--spark-connection=spark_default"]),
        (Engine.SPARK, "spark_prod", ["--engine=spark", "--spark-connection=spark_prod"]),
    ],
)
def test_the_builds_of_a_range_make_the_same_choice(project, engine, connection, options):
    assert engine_options(with_engine(project.spec, engine, connection)) == options


def test_a_connection_that_nobody_defined_ends_the_command_before_the_plan(cli, project):
    arguments = ("build", "clicks/2024-03-01", "--engine", "spark")
    status, _, message = cli(*arguments, "--spark-connection", "spark_prod")
    assert status == 2
    assert "expected settings of the Spark cluster 'spark_prod'" in message
    assert "TRAINFEED_SPARK" in message
    assert not list(project.folder.path.glob("plans/*"))


def test_a_connection_beside_the_local_engine_is_refused(cli):
    status, _, message = cli("build", "clicks/2024-03-01", "--spark-connection", "spark_prod")
    assert status == 2
    assert "expected the engine spark beside --spark-connection, got local" in message
