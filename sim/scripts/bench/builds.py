"""The builds that are measured: this one, and another revision's."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from processes import Failed

PROJECT = Path(__file__).resolve().parents[3]
# One folder for all revisions, so that only what differs is built again.
OTHER = PROJECT / "target" / "bench" / "base"
# Not in /dev/shm, which has 64 MB in a container.
COPIES = PROJECT / "target" / "bench"
BUILD_LIMIT_S = 3600
# What make passes on to its children, and would be taken for options of the other build.
OF_MAKE = ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL", "MAKEFILES", "CARGO_TARGET_DIR")


@dataclass(frozen=True)
class Build:
    """A folder with `ferroce` and `lib/`."""

    label: str  # A or B
    folder: Path
    revision: str

    @property
    def ferroce(self):
        return str(self.folder / "ferroce")

    @contextlib.contextmanager
    def copied(self):
        """Returns a copy of the build, until the end of the block.

        Where the system puts a program's file in memory decides up to a tenth of its speed. A file
        stays there for all runs; a copy gets another place.
        """
        COPIES.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"copy-{self.label}.", dir=COPIES) as folder:
            copy = replace(self, folder=Path(folder))
            try:
                shutil.copy2(self.ferroce, copy.ferroce)
                shutil.copytree(self.folder / "lib", copy.folder / "lib", symlinks=True)
            except OSError as error:
                raise Failed(f"no copy of {self.folder} in {COPIES}: {error}") from None
            yield copy


def _git(*arguments, folder=PROJECT):
    done = subprocess.run(["git", "-C", str(folder), *arguments], text=True, capture_output=True)
    return done.stdout.strip() if done.returncode == 0 else None


def ready(label, folder, revision=None):
    """Returns the build in a folder; its revision is the one that `ferroce --version` prints."""
    folder = Path(folder).resolve()
    for name in ("ferroce", "lib/libibverbs.so.1"):
        if not (folder / name).exists():
            raise SystemExit(f"bench: {folder} has no {name}: run `make` first")
    if revision is None:
        version = subprocess.run([folder / "ferroce", "--version"], text=True,
                                 capture_output=True).stdout
        found = re.search(r"\(([0-9a-f]+)", version)
        revision = found.group(1) if found else version.strip() or "unknown"
        # Of this folder, as far as Git knows it.
        if folder.is_relative_to(PROJECT) and _git("status", "--porcelain", "-uno"):
            revision += "-dirty"
    return Build(label, folder, revision)


def of_revision(revision):
    """Builds another revision in a Git worktree below target/bench."""
    commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if not commit:
        raise SystemExit(f"bench: BASE={revision}: no such revision in {PROJECT}")
    if _git("rev-parse", "--show-toplevel", folder=OTHER) == str(OTHER):
        made = _git("checkout", "--quiet", "--detach", "--force", commit, folder=OTHER)
    else:
        OTHER.parent.mkdir(parents=True, exist_ok=True)
        _git("worktree", "prune")
        made = _git("worktree", "add", "--force", "--detach", str(OTHER), commit)
    if made is None:
        raise SystemExit(f"bench: Git cannot put {revision} into {OTHER}; remove that folder")
    print(f"building {revision} ({commit[:12]}) in {OTHER}", flush=True)
    env = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    # The paths of this project's Makefile may not be those of the other revision's.
    env.pop("CARGO", None)
    try:
        done = subprocess.run(["make", "--no-print-directory", "build"], cwd=OTHER, env=env,
                              timeout=BUILD_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"bench: the build of {revision} took more than "
                         f"{BUILD_LIMIT_S // 60} minutes") from None
    if done.returncode != 0:
        raise SystemExit(f"bench: {revision} cannot be built: see above")
    return ready("B", OTHER / "target" / "release", commit[:12])
