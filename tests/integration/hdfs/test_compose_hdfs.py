"""The settings that docker-compose.yaml gives its NameNode and DataNode are settings of HDFS."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from urllib.request import urlopen
from zipfile import ZipFile

import pytest
from ruamel.yaml import YAML

from services._home import REPOSITORY
from services.hdfs import Hdfs

SITES = ("deploy/hdfs-site.xml", "services/config/hdfs/site.xml")
PORTS = {"namenode": ("9870", "namenode_http"), "datanode": ("9864", "datanode_http")}


def defaults() -> set[str]:
    """Names of all settings that Hadoop's own files list."""
    found = set()
    for jar in Hdfs()._java.jars():
        with ZipFile(jar) as archive:
            for name in ("core-default.xml", "hdfs-default.xml"):
                if name in archive.namelist():
                    tree = ET.fromstring(archive.read(name))
                    found |= {str(each.findtext("name")) for each in tree.iter("property")}
    return found


@pytest.mark.parametrize("site", SITES)
def test_every_setting_is_one_of_hadoop(site: str) -> None:
    properties = ET.parse(REPOSITORY / site).iter("property")
    names = {str(each.findtext("name")) for each in properties}
    known = defaults()
    assert len(known) > 500
    assert names - known == set()


@pytest.mark.parametrize("node", PORTS)
def test_the_health_check_of_the_composition_holds(node: str) -> None:
    compose = YAML(typ="safe").load(REPOSITORY / "docker-compose.yaml")
    (url,) = [word for word in compose["services"][node]["healthcheck"]["test"] if "http" in word]
    theirs, ours = PORTS[node]
    with urlopen(url.replace(f":{theirs}", f":{Hdfs().ports[ours]}"), timeout=20) as answer:
        assert answer.status == 200
