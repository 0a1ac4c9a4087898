//! Checks on the documents: that what they name is there.

#[path = "../../../fixtures/documents.rs"]
mod text;

use super::{exists, files};
use crate::{Xtask, shell};
use clap::Parser as _;
use std::{collections::BTreeSet, fs, path::Path};

/// Folders and files at the top of the project, by which a path is told from other code.
fn is_path(code: &str) -> bool {
    let top = code.split('/').next().unwrap_or_default();
    let is_plain =
        code.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
    // What a build makes is not there before it.
    is_plain
        && top != "target"
        && top != "."
        && (code.contains('/') || has_known_ending(code))
        && exists(top)
}

fn has_known_ending(code: &str) -> bool {
    [".md", ".toml", ".rs"].iter().any(|ending| code.ends_with(ending))
}

#[test]
fn every_path_in_the_documents_exists() {
    let mut found = 0;
    for (document, words) in text::documents() {
        for span in words.split('`').skip(1).step_by(2).filter(|span| is_path(span)) {
            assert!(exists(span), "{}: there is no {span}", document.display());
            found += 1;
        }
    }
    assert!(found > 20, "only {found} paths");
}

#[test]
fn every_link_in_the_documents_leads_somewhere() {
    for file in files().iter().filter(|file| file.has_extension("md")) {
        let folder = Path::new(&file.path).parent().unwrap();
        for link in file.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("http") || link.starts_with('#') {
                continue;
            }
            let target = folder.join(link.split('#').next().unwrap());
            assert!(exists(target.to_str().unwrap()), "{}: no {link}", file.path);
        }
    }
}

#[test]
fn every_developers_command_in_the_documents_is_understood() {
    let commands = text::commands("cargo xtask");
    assert!(commands.len() > 5, "{commands:?}");
    for text::Documented { place, words } in commands {
        let arguments = words.iter().skip(1);
        if let Err(error) = Xtask::try_parse_from(arguments)
            && error.use_stderr()
        {
            panic!("{place}: {error}");
        }
    }
}

#[test]
fn the_answer_in_the_readme_is_current() {
    let readme = fs::read_to_string(shell::root().join("README.md")).unwrap();
    let path = "fixtures/golden/answers/process_inspect.txt";
    let answer = fs::read_to_string(shell::root().join(path)).unwrap();
    let want = format!("<!-- {path} -->\n```text\n{answer}```\n");
    if std::env::var_os("SYSMCP_BLESS").is_some() {
        let (before, rest) = readme.split_once(&format!("<!-- {path} -->\n```text\n")).unwrap();
        let (_, after) = rest.split_once("```\n").unwrap();
        fs::write(shell::root().join("README.md"), format!("{before}{want}{after}")).unwrap();
        return;
    }
    assert!(readme.contains(&want), "README.md: `cargo xtask bless` brings it up to date");
}

#[test]
fn containers_build_with_the_toolchain_that_the_project_names() {
    let read = |path: &str| fs::read_to_string(shell::root().join(path)).unwrap();
    let toolchain = read("rust-toolchain.toml");
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = \"")).unwrap();
    let told = format!("cross +{} build", channel.trim_end_matches('"'));
    let commands: Vec<String> = read("Cross.toml")
        .lines()
        .filter(|line| line.contains("cross +"))
        .map(str::to_owned)
        .collect();
    assert_eq!(commands.len(), 2);
    assert!(commands.iter().all(|command| command.contains(&told)), "{commands:?}");
}

#[test]
fn every_dependency_has_its_reason() {
    let documented: BTreeSet<String> = {
        let text = fs::read_to_string(shell::root().join("docs/dependencies.md")).unwrap();
        let named = text.lines().filter_map(|line| line.strip_prefix("- **")?.split("**").next());
        named.map(str::to_owned).collect()
    };
    let mut used = BTreeSet::new();
    for file in files().iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        let mut is_list = false;
        for line in file.text.lines() {
            if line.starts_with('[') {
                is_list = line.ends_with("dependencies]");
            } else if is_list
                && let Some((name, value)) = line.split_once([' ', '.', '='])
                && !value.contains("path = ")
                && !line.starts_with('#')
            {
                used.insert(name.to_owned());
            }
        }
    }
    let ours = ["protocol", "probe-agent", "controller", "scenarios", "bench"];
    for name in used.iter().filter(|name| !ours.contains(&name.as_str())) {
        assert!(documented.contains(name), "docs/dependencies.md does not say why {name} is used");
    }
    // What is listed beside the manifests is no crate.
    let beside = ["rust-lld", "clang", "gzip", "qemu-system-x86_64"];
    for name in documented.iter().filter(|name| !beside.contains(&name.as_str())) {
        assert!(used.contains(name), "docs/dependencies.md names {name}, which nothing uses");
    }
}
