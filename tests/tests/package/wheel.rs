//! The Python wheel: what pip makes of it.

use std::fs;
use std::path::Path;
use std::process::Command;

use ferroce_tests::{Ended, Scratch};

use super::files::tree;
use super::install::Packages;
use super::{output, packaging, project, release};

/// Compares the installed files with the wheel's RECORD, and runs the command through the package.
const READ_PACKAGE: &str = r#"
import base64, hashlib, importlib.metadata, ferroce
files = [file for file in importlib.metadata.files("ferroce") if file.hash]
for file in files:
    digest = base64.urlsafe_b64encode(hashlib.sha256(file.read_binary()).digest())
    assert file.hash.value == digest.decode().rstrip("="), file
assert ferroce.command.binary() == ferroce.command.OF_WHEEL
print(len(files), "files;", *ferroce.presets())
"#;

/// Returns a program of an environment, which has nothing in PATH but what the system has.
fn program(scratch: &Scratch, name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(scratch.path("venv/bin").join(name));
    command.args(arguments).env_clear();
    command
        .env("PATH", "/usr/bin:/bin")
        .env("FERROCE_DIR", scratch.path("fabric"));
    command
}

/// Returns the files of Ferroce below a folder.
fn of_ferroce(folder: &Path) -> Vec<String> {
    let names = tree(folder).into_iter();
    names.filter(|name| name.contains("ferroce")).collect()
}

/// Goal: `pip install ferroce` gives the command with its libraries, and the package. Method: an
/// environment that is not active, and a folder as the index; then uninstall.
#[test]
fn pip_installs_command_and_package() {
    let wheel = Packages::of_this_build().file(".whl");
    assert!(wheel.contains("-py3-none-manylinux_2_"), "{wheel}");
    let scratch = Scratch::new();
    let venv = scratch.path("venv");
    let path = venv.to_string_lossy();
    output(&scratch, "/usr/bin/python3", &["-m", "venv", &path]);
    let folder = Path::new(&wheel).parent().expect("a folder");
    let folder = folder.to_string_lossy();
    let install = ["install", "--no-index", "--find-links", &folder, "ferroce"];
    let finish = |name, arguments: &[&str]| {
        let command = program(&scratch, name, arguments);
        scratch.finish(command).expect_success()
    };
    finish("pip", &install);
    let said = finish("ferroce", &["run", "--", "ibv_devinfo"]);
    assert!(said.contains("ferroce0"), "{said}");
    let said = finish("python", &["-c", READ_PACKAGE]);
    assert!(said.contains("cx5-100g"), "{said}");
    assert!(venv.join("share/man/man1/ferroce-run.1").is_file());
    let said = finish("pip", &["show", "--files", "ferroce"]);
    for file in [
        "LICENSE-MIT",
        "NOTICES",
        "ferroce/prefix/share/ferroce/tsan.supp",
    ] {
        assert!(said.contains(file), "no {file}: {said}");
    }
    finish("pip", &["uninstall", "--yes", "ferroce"]);
    assert_eq!(of_ferroce(&venv), [""; 0]);
}

fn wheel(scratch: &Scratch, script: Command, release: &Path) -> Ended {
    let mut command = script;
    command.arg(release).arg(scratch.path("wheel"));
    scratch.finish(command)
}

/// Goal: no wheel is written from a build that is missing or needs a newer glibc than the platform
/// has, or with the version of another build.
#[test]
fn no_wheel_is_made_of_wrong_input() {
    let scratch = Scratch::new();
    let missing = wheel(&scratch, packaging("wheel"), &scratch.path("nothing"));
    let mut newer = packaging("wheel");
    newer.env("GLIBC_FLOOR", "2.9");
    let newer = wheel(&scratch, newer, &release());
    let sources = scratch.path("sources");
    for file in ["packaging/wheel", "python/pyproject.toml", "Cargo.toml"] {
        let to = sources.join(file);
        fs::create_dir_all(to.parent().expect("a folder")).expect("our own folder");
        fs::copy(project(file), to).expect("a file of ours");
    }
    let file = sources.join("python/pyproject.toml");
    let text = fs::read_to_string(&file).expect("UTF-8");
    let version = concat!("version = \"", env!("CARGO_PKG_VERSION"));
    fs::write(&file, text.replace(version, "version = \"99.0")).expect("our own folder");
    let script = Command::new(sources.join("packaging/wheel"));
    let other = wheel(&scratch, script, &release());
    for (ended, reason) in [
        (missing, "`make` builds it"),
        (newer, "needs more than glibc 2.9"),
        (other, "python/pyproject.toml has version 99.0"),
    ] {
        assert!(!ended.succeeded(), "{ended:?}");
        assert!(ended.output.contains(reason), "no {reason}: {ended:?}");
    }
    assert!(!scratch.path("wheel").exists());
}
