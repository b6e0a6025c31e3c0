"""Quotas of processor time, read from folders like those of the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.machine.cgroups import QUOTA_FILE, autogroups, groups, quota


class Host:
    """Writes a /proc/self and hierarchies of control groups into a folder."""

    def __init__(self, folder: Path) -> None:
        self.process = folder / "self"
        self.process.mkdir()
        self._cgroup: list[str] = []
        self._mounts: list[str] = ["23 1 0:5 / /proc rw - proc proc rw"]
        self.folder = folder

    def mounted(self, kind: str, options: str, at: str, path: str, root: str = "/") -> Path:
        number, controllers = ("0", "") if kind == "cgroup2" else ("7", "cpu,cpuacct")
        self._cgroup.append(f"{number}:{controllers}:{path}")
        mount = self.folder / at
        mount.mkdir()
        escaped = str(mount).replace(" ", "\\040")
        self._mounts.append(f"31 24 0:28 {root} {escaped} rw,nosuid shared:9 - {kind} {kind} {options}")
        (self.process / "cgroup").write_text("12:memory:/elsewhere\n" + "\n".join(self._cgroup) + "\n")
        (self.process / "mountinfo").write_text("\n".join(self._mounts) + "\n")
        return mount

    def version_2(self, path: str, root: str = "/") -> Path:
        return self.mounted("cgroup2", "rw,nsdelegate", "unified", path, root)

    def version_1(self, path: str, root: str = "/") -> Path:
        return self.mounted("cgroup", "rw,cpu,cpuacct", "cpu,cpuacct", path, root)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "a machine").mkdir()  # mountinfo writes the space as \040
    return Host(tmp_path / "a machine")


def limited(folder: Path, version: int, limit: str, period: int = 100_000) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if version == 2:
        (folder / QUOTA_FILE[2]).write_text(f"{limit} {period}\n")
    else:
        (folder / QUOTA_FILE[1]).write_text(f"{limit}\n")
        (folder / "cpu.cfs_period_us").write_text(f"{period}\n")


@pytest.mark.parametrize("version", [1, 2])
def test_a_quota_may_be_a_fraction_of_a_core(host: Host, version: int) -> None:
    mount = host.version_2("/user/job") if version == 2 else host.version_1("/user/job")
    limited(mount / "user/job", version, "75000", 50_000)
    found = quota(host.process)
    assert found is not None
    assert (found.cores, found.version) == (1.5, version)
    assert found.file == mount / "user/job" / QUOTA_FILE[version]


@pytest.mark.parametrize("version", [1, 2])
def test_the_least_quota_up_the_hierarchy_holds(host: Host, version: int) -> None:
    mount = host.version_2("/user/job") if version == 2 else host.version_1("/user/job")
    limited(mount / "user/job", version, "400000")
    limited(mount / "user", version, "250000")
    limited(mount, version, "-1" if version == 1 else "max")
    found = quota(host.process)
    assert found is not None and found.cores == 2.5
    assert found.file.parent == mount / "user"


def test_other_mounts_may_have_no_source_and_any_name(host: Host) -> None:
    mount = host.version_2("/job")
    limited(mount / "job", 2, "75000", 50_000)
    mounts = host.process / "mountinfo"
    odd = [
        b"40 24 0:9 / /mnt/a rw -  tmpfs  rw",
        b"41 24 0:9 / /mnt/caf\xe9 rw - tmpfs tmpfs rw",
        "42 24 0:9 / /b\u2028c rw".encode(),
    ]
    mounts.write_bytes(b"\n".join(odd) + b"\n" + mounts.read_bytes())
    found = quota(host.process)
    assert found is not None and found.cores == 1.5


def test_without_a_limit_there_is_no_quota(host: Host) -> None:
    limited(host.version_2("/job") / "job", 2, "max")
    limited(host.version_1("/job") / "job", 1, "-1")
    assert quota(host.process) is None
    assert [group.version for group in groups(host.process)] == [2, 1]


def test_with_both_versions_mounted_the_lesser_quota_holds(host: Host) -> None:
    limited(host.version_2("/") / ".", 2, "300000")
    limited(host.version_1("/job") / "job", 1, "200000")
    found = quota(host.process)
    assert found is not None and (found.cores, found.version) == (2.0, 1)


def test_a_container_sees_its_own_group_where_the_hierarchy_is_mounted(host: Host) -> None:
    limited(host.version_1("/docker/abc", root="/docker/abc"), 1, "150000")
    found = quota(host.process)
    assert found is not None and found.cores == 1.5


@pytest.mark.parametrize("path", ["/../../job", "/docker/abc", "/"])
def test_if_the_group_is_outside_the_mounted_part_only_the_mount_itself_is_read(host: Host, path: str) -> None:
    limited(host.version_2(path, root="/pods/one"), 2, "50000")
    found = quota(host.process)
    assert found is not None and found.cores == 0.5


@pytest.mark.parametrize("text", ["", "max", "a b", "100 0", "1 2 3"])
def test_a_quota_file_of_another_form_is_no_limit(host: Host, text: str) -> None:
    (host.version_2("/") / QUOTA_FILE[2]).write_text(text)
    assert quota(host.process) is None


def test_where_nothing_can_be_read_there_is_no_quota(tmp_path: Path) -> None:
    assert quota(tmp_path) is None


def test_autogroups_are_on_off_or_unknown(tmp_path: Path) -> None:
    for text, shared in (("1\n", True), ("0\n", False)):
        (tmp_path / "enabled").write_text(text)
        assert autogroups(tmp_path / "enabled") is shared
    assert autogroups(tmp_path / "nowhere") is None


def test_the_quota_of_this_machine_can_be_read() -> None:
    found = quota()
    assert found is None or found.cores > 0
