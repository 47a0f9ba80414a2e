"""Jars through Maven, checksums checked, into a folder of the cache."""
import os
import tempfile

from . import CACHE
from .base import run

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def dependency(jar, alone):
    group, artifact, version, *classifier = jar
    return (f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
            + (f"<classifier>{classifier[0]}</classifier>" if classifier else "") + (ALONE if alone else "") + "</dependency>\n")


def pom(jars, alone):
    deps = "".join(dependency(j, alone) for j in jars)
    return ('<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>weir.tests</groupId>'
            f"<artifactId>jars</artifactId><version>1</version><packaging>pom</packaging><dependencies>\n{deps}</dependencies></project>\n")


def fetch(jars, target, alone=False):
    """jars: (group, artifact, version[, classifier]); alone: without what they depend on. target appears when all is there."""
    with tempfile.TemporaryDirectory(prefix="weir-", dir=CACHE) as d:
        lib, file = os.path.join(d, "lib"), os.path.join(d, "pom.xml")
        os.mkdir(lib)
        with open(file, "w") as f:
            f.write(pom(jars, alone))
        run(["mvn", "-q", "-B", "-C", "-f", file, COPY, f"-DoutputDirectory={lib}", "-DincludeScope=runtime"], "mvn")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(lib, target)
