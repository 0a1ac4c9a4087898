//! Files for debuggers: found where distributions keep them, and never one of another build.

use crate::{
    binaries::{build, is_there, run},
    not_run::not_run,
};
use probe_agent::stack::{
    How,
    debug_files::{Files, Lookup, shared_with, split_from},
    elf::ElfFile,
    symbols::Symbols,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A folder that stands for the root of a process.
struct Root(PathBuf);

impl Files for Root {
    type Bytes = Vec<u8>;

    fn open(&self, path: &[u8]) -> Option<Vec<u8>> {
        let path = std::str::from_utf8(path).unwrap().strip_prefix('/').unwrap();
        fs::read(self.0.join(path)).ok()
    }
}

impl Root {
    fn put(&self, path: &str, from: &Path) {
        let place = self.0.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(from, place).unwrap();
    }
}

/// A program in three: whole, without what is for debuggers, and only that.
struct Parts {
    stripped: PathBuf,
    debug: PathBuf,
}

fn parts(folder: &Path, recipe: &str) -> Parts {
    let whole = build(folder, recipe);
    let (stripped, debug) = (folder.join("program"), folder.join("program.debug"));
    run(Command::new("objcopy").arg("--only-keep-debug").args([&whole, &debug]));
    run(Command::new("objcopy")
        .arg("--strip-all")
        .arg("--add-gnu-debuglink")
        .arg(&debug)
        .args([&whole, &stripped])
        .current_dir(folder));
    Parts { stripped, debug }
}

fn path_by_build_id(file: &Path) -> String {
    let bytes = fs::read(file).unwrap();
    let id = ElfFile::parse(&bytes).unwrap().build_id().unwrap().to_string();
    format!("usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..])
}

#[test]
fn a_file_is_found_wherever_distributions_keep_it() {
    let folder = tempfile::tempdir().unwrap();
    for recipe in ["c", "c-no-build-id"] {
        let parts = parts(folder.path(), recipe);
        let mut places = vec![
            "usr/bin/program.debug".to_owned(),
            "usr/bin/.debug/program.debug".to_owned(),
            "usr/lib/debug/usr/bin/program.debug".to_owned(),
        ];
        if recipe == "c" {
            places.push(path_by_build_id(&parts.stripped));
        }
        for place in places {
            let root = Root(tempfile::tempdir_in(folder.path()).unwrap().keep());
            root.put(&place, &parts.debug);
            let bytes = fs::read(&parts.stripped).unwrap();
            let image = ElfFile::parse(&bytes).unwrap();
            let Lookup::Found { bytes: debug, path } =
                split_from(&image, b"/usr/bin/program", &root)
            else {
                panic!("{recipe}: not found at {place}");
            };
            assert_eq!(path, format!("/{place}").as_bytes());
            let debug = ElfFile::parse(&debug).unwrap();
            let symbols = Symbols::of(&image, Some(&debug));
            let text = image.section(b".text").unwrap();
            let found = text.svma_range().find_map(|svma| {
                symbols.find(svma).filter(|found| found.text.as_str() == "only_here")
            });
            assert_eq!(found.unwrap().how, How::DebugFile);
        }
    }
}

#[test]
fn a_file_of_another_build_is_named_and_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let others = tempfile::tempdir().unwrap();
    let ours = parts(folder.path(), "c");
    let other = parts(others.path(), "c-not-moved");
    let bytes = fs::read(&ours.stripped).unwrap();
    let image = ElfFile::parse(&bytes).unwrap();
    for place in [path_by_build_id(&ours.stripped), "usr/bin/program.debug".to_owned()] {
        let root = Root(tempfile::tempdir_in(folder.path()).unwrap().keep());
        root.put(&place, &other.debug);
        let found = split_from(&image, b"/usr/bin/program", &root);
        let path = format!("/{place}").into_bytes();
        assert_eq!(found, Lookup::OfAnotherBuild { path });
    }
    let nothing = Root(folder.path().join("nothing"));
    assert_eq!(split_from(&image, b"/usr/bin/program", &nothing), Lookup::None);
}

#[test]
fn what_several_files_have_in_common_is_found() {
    if !is_there("dwz") {
        return not_run("what_several_files_have_in_common_is_found", "the package dwz");
    }
    let folder = tempfile::tempdir().unwrap();
    let root = Root(folder.path().join("root"));
    let (one, two) = (build(folder.path(), "c"), build(folder.path(), "c-not-moved"));
    run(Command::new("dwz")
        .args(["-m", "shared", "-M", "../shared/shared.debug", "-h"])
        .args([&one, &two])
        .current_dir(folder.path()));
    root.put("usr/lib/debug/shared/shared.debug", &folder.path().join("shared"));
    let bytes = fs::read(&one).unwrap();
    let debug = ElfFile::parse(&bytes).unwrap();
    let found = shared_with(&debug, b"/usr/lib/debug/bin/c.debug", &root);
    let Lookup::Found { path, .. } = found else { panic!("{found:?}") };
    assert_eq!(path, b"/usr/lib/debug/shared/shared.debug");
    root.put("usr/lib/debug/shared/shared.debug", &two);
    let found = shared_with(&debug, b"/usr/lib/debug/bin/c.debug", &root);
    assert!(matches!(found, Lookup::OfAnotherBuild { .. }), "{found:?}");
}
