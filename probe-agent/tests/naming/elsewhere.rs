//! Programs in a root of their own: a container's files are not those of the machine.

use super::{
    assert_about,
    binaries::{build, run},
    busy::Busy,
    named, names_of,
    not_run::not_run,
    recorded,
    shown::{Row, row, rows},
};
use probe_agent::{
    perf::sampler::Scope,
    stack::{elf::ElfFile, profile::Kind},
};
use protocol::recording::NoNames;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The only child of a process that starts another one and waits for it.
pub fn child_of(pid: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.trim().parse().unwrap()
}

/// A folder with a program in it that has no symbols, and what was taken out of it.
struct Container {
    folder: tempfile::TempDir,
    debug: PathBuf,
}

impl Container {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let whole = build(folder.path(), "busy-static");
        let (debug, root) = (folder.path().join("app.debug"), folder.path().join("root"));
        fs::create_dir_all(root.join("opt")).unwrap();
        run(Command::new("objcopy").arg("--only-keep-debug").args([&whole, &debug]));
        run(Command::new("objcopy")
            .args(["--strip-all", "--add-gnu-debuglink=app.debug"])
            .args([&whole, &root.join("opt/app")])
            .current_dir(folder.path()));
        fs::remove_file(whole).unwrap();
        Self { folder, debug }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn put(&self, path: &Path, from: &Path) {
        let place = self.root().join(path.strip_prefix("/").unwrap_or(path));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(from, place).unwrap();
    }

    /// Where distributions keep what was taken out.
    fn by_build_id(&self) -> PathBuf {
        let bytes = fs::read(&self.debug).unwrap();
        let id = ElfFile::parse(&bytes).unwrap().build_id().unwrap().to_string();
        format!("/usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]).into()
    }

    fn start(&self) -> Busy {
        let root = format!("--root={}", self.root().display());
        Busy::start_by(Command::new("unshare").args(["--mount", &root, "/opt/app", "shares"]))
    }

    fn rows(&self) -> (Vec<Row>, NoNames) {
        let names = names_of(&self.start());
        (rows(&names), names.unnamed.first().map_or(NoNames::NoStack, |file| file.why))
    }
}

#[test]
fn a_container_s_program_is_named_by_its_own_files_for_debuggers() {
    if !is_root() {
        return not_run("a_container_s_program_is_named_by_its_own_files_for_debuggers", "root");
    }
    for by_link in [false, true] {
        let container = Container::new();
        match by_link {
            false => container.put(&container.by_build_id(), &container.debug),
            true => container.put(Path::new("/opt/.debug/app.debug"), &container.debug),
        }
        let names = names_of(&container.start());
        for (function, share) in [("six_of_ten", 0.6), ("three_of_ten", 0.3)] {
            let row = row(&names, function);
            assert_about(row.own, share);
            assert_eq!((row.module.as_str(), row.kind), ("app", Kind::User));
        }
        let line = names.lines.first().unwrap();
        assert!(line.file.ends_with("/busy.c"), "{:?}", names.lines);
    }
}

#[test]
fn a_file_for_debuggers_of_another_build_names_nothing_and_is_told_of() {
    if !is_root() {
        let test = "a_file_for_debuggers_of_another_build_names_nothing_and_is_told_of";
        return not_run(test, "root");
    }
    let container = Container::new();
    let other = build(container.folder.path(), "c");
    container.put(Path::new("/opt/app.debug"), &other);
    let (rows, why) = container.rows();
    assert_eq!((rows[0].kind, why), (Kind::Unnamed, NoNames::OtherDebugFile), "{rows:?}");
}

/// The file is outside of the container's root, and the container says that it is where a link leads.
#[test]
fn no_link_leads_out_of_a_container() {
    if !is_root() {
        return not_run("no_link_leads_out_of_a_container", "root");
    }
    let container = Container::new();
    let links = [("/opt/.debug", "../.."), ("/opt/app.debug", "/proc/1/root/nothing")];
    for (link, target) in links {
        std::os::unix::fs::symlink(target, container.root().join(&link[1..])).unwrap();
    }
    let by_id = container.root().join(&container.by_build_id().to_str().unwrap()[1..]);
    fs::create_dir_all(by_id.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&container.debug, by_id).unwrap();
    let (rows, why) = container.rows();
    assert_eq!((rows[0].kind, why), (Kind::Unnamed, NoNames::Stripped), "{rows:?}");
}

#[test]
fn a_program_that_ended_before_is_named_by_what_was_opened_while_it_ran() {
    if !is_root() {
        let test = "a_program_that_ended_before_is_named_by_what_was_opened_while_it_ran";
        return not_run(test, "root");
    }
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("inside");
    let script = format!(
        "mount -t tmpfs none {0} && cp {1} {2} && exec {2} shares",
        folder.path().display(),
        super::busy::program().display(),
        inside.display(),
    );
    let busy = Busy::start_by(Command::new("unshare").args(["--mount", "sh", "-c", &script]));
    let recording = recorded(&Scope::Process(busy.pid()), 300);
    drop(busy);
    assert!(!inside.exists());
    assert_about(row(&named(&recording), "six_of_ten").own, 0.6);
}
