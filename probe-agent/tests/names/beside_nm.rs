//! Every function that `nm` lists is found, by its first, middle and last byte, under a name that `nm`
//! has for it.

use crate::{
    binaries::{build, is_there, run},
    not_run::not_run,
};
use probe_agent::stack::{How, elf::ElfFile, symbols::Symbols};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

/// A function as nm lists it.
#[derive(Debug, Default)]
struct Listed {
    /// The longest size that a name of this address has.
    size: u64,
    names: BTreeSet<String>,
}

/// What `nm` lists as code, by address.
fn listed(file: &Path, options: &[&str]) -> BTreeMap<u64, Listed> {
    let text = run(Command::new("nm").args(["-S", "--defined-only", "-C"]).args(options).arg(file));
    let mut all: BTreeMap<u64, Listed> = BTreeMap::new();
    for line in text.lines() {
        // `ADDRESS SIZE KIND NAME`, without the size where there is none.
        let Some((address, rest)) = line.split_once(' ') else { continue };
        let (size, rest) = match rest.split_once(' ') {
            Some((size, rest)) if size.len() == 16 => (size, rest),
            _ => ("0", rest),
        };
        let Some((kind, name)) = rest.split_once(' ') else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        if !matches!(kind, "T" | "t" | "W" | "w" | "i") || address == 0 {
            continue;
        }
        let entry = all.entry(address).or_default();
        entry.size = entry.size.max(u64::from_str_radix(size, 16).unwrap());
        entry.names.insert(name.split('@').next().unwrap().to_owned());
    }
    all
}

/// What came of a comparison.
#[derive(Debug)]
struct Compared {
    functions: usize,
    /// Functions whose name is written in another way than `nm` writes it.
    written_otherwise: BTreeSet<u64>,
}

/// Compares. Whatever is not the same function at all is an end.
fn compare(file: &Path, options: &[&str]) -> Compared {
    let bytes = std::fs::read(file).unwrap();
    let image = ElfFile::parse(&bytes).unwrap();
    let symbols = Symbols::of(&image, None);
    let listed = listed(file, options);
    let mut written_otherwise = BTreeSet::new();
    for (start, function) in listed.iter().filter(|(_, function)| function.size > 0) {
        let last = start + function.size - 1;
        for svma in [*start, start + function.size / 2, last] {
            // A function within a function is the one that is shown.
            if listed.range(start..=&svma).skip(1).any(|(_, inner)| inner.size > 0) {
                continue;
            }
            let found = symbols.find(svma).unwrap_or_else(|| panic!("{svma:x}: {function:?}"));
            assert_eq!((found.start, found.how), (*start, How::SymbolTable), "{function:?}");
            if !function.names.iter().any(|name| is_same(name, found.text.as_str())) {
                println!("{}: {} is {:?}", file.display(), found.text, function.names);
                written_otherwise.insert(*start);
            }
        }
    }
    Compared { functions: listed.len(), written_otherwise }
}

/// Whether two texts are the same name. A long one is cut here.
pub fn is_same(nm: &str, found: &str) -> bool {
    nm == found || found.split_once("…[").is_some_and(|(start, _)| nm.starts_with(start))
}

#[test]
fn every_function_has_a_name_that_nm_has_for_it() {
    let folder = tempfile::tempdir().unwrap();
    // How many there are at least, and how many the library for names of C++ writes otherwise than
    // `nm`: it writes `(unsigned long)0` for `0ul`, loses `&&` of a parameter of a template and what
    // is in an empty pack, and does not know `sr`.
    let cases = [
        ("c", 15, 0),
        ("c-not-moved", 15, 0),
        ("c-static", 1000, 0),
        ("cpp", 30, 2),
        ("cpp-not-optimized", 300, 80),
        ("rust", 300, 0),
        ("rust-new-names", 300, 0),
        ("go", 1000, 0),
    ];
    for (name, least, otherwise) in cases {
        if name == "go" && !is_there("go") {
            not_run("names of Go", "the package golang-go");
            continue;
        }
        let compared = compare(&build(folder.path(), name), &[]);
        let differ = compared.written_otherwise.len();
        println!("{name}: {} functions, {differ} written otherwise", compared.functions);
        assert!(compared.functions >= least, "{name}: {compared:?}");
        assert!(differ <= otherwise, "{name}: {compared:?}");
    }
}

#[test]
fn a_library_of_this_machine_has_the_names_that_nm_has_for_it() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps.split_whitespace().find(|word| word.ends_with("/libc.so.6")).unwrap();
    let compared = compare(Path::new(path), &["-D"]);
    assert!(compared.functions > 1000 && compared.written_otherwise.is_empty(), "{compared:?}");
}
