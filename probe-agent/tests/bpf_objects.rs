//! The eBPF objects that are committed are what their sources make.

#[path = "../bpf/compile.rs"]
mod compile;

use compile::Compiler;
use std::path::Path;

#[test]
fn committed_objects_are_what_the_sources_make() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let release = std::fs::read_to_string(folder.join("prebuilt/clang")).unwrap();
    let compiler = match Compiler::find() {
        // Another release makes other bytes, which are as good.
        Ok(compiler) if compiler.release().to_string() == release.trim() => compiler,
        other => {
            let found = other.map(|compiler| compiler.release());
            let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
            assert!(!is_ci, "needs clang {}, there is {found:?}", release.trim());
            println!("not run: needs clang {}, there is {found:?}", release.trim());
            return;
        }
    };
    let output = tempfile::tempdir().unwrap();
    let sources = compile::sources(&folder).unwrap();
    assert!(!sources.is_empty());
    for arch in ["x86_64", "aarch64"] {
        let committed = folder.join("prebuilt").join(arch);
        for source in &sources {
            let name = compile::object_name(source);
            let object = output.path().join(&name);
            compiler.compile(source, arch, &object).unwrap();
            let (made, kept) =
                (std::fs::read(object).unwrap(), std::fs::read(committed.join(&name)));
            assert!(kept.is_ok_and(|kept| kept == made), "{arch}/{name}: run `cargo xtask bpf`");
        }
        let count = std::fs::read_dir(&committed).unwrap().count();
        assert_eq!(count, sources.len(), "{}: an object without a source", committed.display());
    }
}
