//! Code that no table names: of programs whose symbols were taken out, and stubs of the linkage table.

use crate::binaries::{build, run};
use probe_agent::stack::{How, elf::ElfFile, symbols::Symbols};
use std::{path::Path, process::Command};

/// Where functions with a size start, and how long they are, by `nm`.
pub fn functions(file: &Path) -> Vec<(u64, u64)> {
    let text = run(Command::new("nm").args(["-S", "--defined-only"]).arg(file));
    let hexadecimal = |word: Option<&str>| u64::from_str_radix(word?, 16).ok();
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let (start, size) = (hexadecimal(words.next())?, hexadecimal(words.next())?);
        matches!(words.next()?, "t" | "T" | "W").then_some((start, size))
    };
    text.lines().filter_map(parse).filter(|(_, size)| *size > 0).collect()
}

#[test]
fn a_function_without_a_name_has_one_by_where_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    for (name, least) in
        [("c", 8), ("c-not-moved", 8), ("c-static", 700), ("cpp", 30), ("rust", 300)]
    {
        let built = build(folder.path(), name);
        let functions = functions(&built);
        let stripped = folder.path().join("stripped");
        run(Command::new("strip").arg("-s").arg(&built).arg("-o").arg(&stripped));
        let bytes = std::fs::read(&stripped).unwrap();
        let image = ElfFile::parse(&bytes).unwrap();
        let symbols = Symbols::of(&image, None);
        let (mut by_start, mut unnamed) = (0, Vec::new());
        for (start, size) in &functions {
            for svma in [*start, start + size / 2, start + size - 1] {
                match symbols.find(svma) {
                    Some(found) if found.how == How::FunctionStart => {
                        assert_eq!(found.text.as_str(), format!("fn_{:x}", found.start));
                        // Several functions of assembly may share what the unwinder knows of them.
                        assert!(found.start <= *start, "{svma:x}: {found:?}");
                        by_start += usize::from(found.start == *start && svma == *start);
                    }
                    Some(found) => assert_eq!(found.start, *start, "{svma:x}: {found:?}"),
                    None => unnamed.push(svma),
                }
            }
        }
        println!("{name}: {by_start} of {} by start, {} unnamed", functions.len(), unnamed.len());
        assert!(by_start >= least, "{name}: {by_start}");
        // Code that starts a program has no information for an unwinder.
        assert!(unnamed.len() <= 3 * (functions.len() / 20 + 2), "{name}: {unnamed:x?}");
    }
}

#[test]
fn a_stub_has_the_name_of_what_it_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("c", &[".plt", ".plt.got"][..], 4),
        ("c-not-moved", &[".plt"], 4),
        ("c-second-linkage-table", &[".plt.sec"], 4),
        ("cpp", &[".plt", ".plt.got"], 10),
        ("rust", &[".plt", ".plt.got"], 1),
    ];
    for (name, sections, least) in cases {
        let built = build(folder.path(), name);
        let bytes = std::fs::read(&built).unwrap();
        let image = ElfFile::parse(&bytes).unwrap();
        let symbols = Symbols::of(&image, None);
        let mut compared = 0;
        for section in sections {
            let listing = Command::new("objdump")
                .args(["-dC", "--no-show-raw-insn", "-j", section])
                .arg(&built)
                .output()
                .unwrap();
            for line in String::from_utf8(listing.stdout).unwrap().lines() {
                // `0000000000001040 <printf@plt>:`
                let Some((start, rest)) = line.split_once(" <") else { continue };
                let Some(label) = rest.strip_suffix("@plt>:") else { continue };
                let Ok(start) = u64::from_str_radix(start, 16) else { continue };
                let found = symbols.find(start + 3).unwrap_or_else(|| panic!("{name}: {line}"));
                assert_eq!(found.start, start, "{name}: {line}");
                // Without a name, objdump shows the address of the function that chooses.
                let expected = match label.strip_prefix("*ABS*+0x") {
                    Some(address) => {
                        let address = u64::from_str_radix(address, 16).unwrap();
                        format!("{}@plt", symbols.find(address).unwrap().text)
                    }
                    None => format!("{}@plt", label.split('@').next().unwrap()),
                };
                assert_eq!(found.text.as_str(), expected, "{name}: {line}");
                compared += 1;
            }
        }
        println!("{name}: {compared} stubs");
        assert!(compared >= least, "{name}: {compared}");
    }
}

#[test]
fn code_without_a_size_reaches_to_the_next_symbol() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(build(folder.path(), "c")).unwrap();
    let image = ElfFile::parse(&bytes).unwrap();
    let symbols = Symbols::of(&image, None);
    let text = image.section(b".text").unwrap();
    let found = text.svma_range().find_map(|svma| {
        symbols.find(svma).filter(|found| found.text.as_str() == "without_a_size")
    });
    let start = found.unwrap().start;
    assert_eq!(symbols.find(start + 2).unwrap().text.as_str(), "without_a_size");
    assert!(symbols.find(text.svma_range().end).is_none(), "not behind the code");
}

#[test]
fn of_several_names_the_one_that_others_see_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(build(folder.path(), "c")).unwrap();
    let image = ElfFile::parse(&bytes).unwrap();
    let symbols = Symbols::of(&image, None);
    let names: Vec<String> = image
        .section(b".text")
        .unwrap()
        .svma_range()
        .filter_map(|svma| Some(symbols.find(svma)?.text.to_string()))
        .collect();
    for (name, is_shown) in [
        ("seen_by_all", true),
        ("other_name", false),
        ("weak_and_much_longer_name", false),
        ("only_here", true),
        ("main", true),
    ] {
        assert_eq!(names.iter().any(|found| found == name), is_shown, "{name}");
    }
}
