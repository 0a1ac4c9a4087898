//! Compiles the eBPF programs in this folder: part of the agent's build script, of its tests and of
//! `cargo xtask bpf`.
//!
//! The same compiler makes the same bytes anywhere: no path of the machine is in them, and what
//! debuggers read is taken out. What the kernel reads, `.BTF` and `.BTF.ext`, stays.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The oldest clang whose CO-RE relocations are known to be right.
const OLDEST: u32 = 14;

/// A compiler that can make them.
pub struct Compiler {
    program: OsString,
    major: u32,
}

impl Compiler {
    /// clang, or what the variable `CLANG` names.
    ///
    /// # Errors
    ///
    /// That there is none, or that it is too old, in a sentence.
    pub fn find() -> Result<Self, String> {
        let program = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
        let asked = Command::new(&program).arg("--version").output();
        let name = program.to_string_lossy().into_owned();
        let answer = asked.map_err(|error| format!("{name} cannot be run: {error}"))?;
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        let after = text.split("clang version ").nth(1).unwrap_or_default();
        let major = after.split('.').next().and_then(|major| major.parse().ok());
        match major {
            Some(major) if major >= OLDEST => Ok(Self { program, major }),
            Some(major) => Err(format!("{name} is version {major}, and {OLDEST} is the oldest")),
            None => Err(format!("{name} does not say its version")),
        }
    }

    /// The release: another one makes other bytes, which are as good.
    pub fn release(&self) -> u32 {
        self.major
    }

    /// Compiles one source for a processor, `x86_64` or `aarch64`. `output` is a path to write to.
    ///
    /// # Errors
    ///
    /// What the compiler said.
    pub fn compile(&self, source: &Path, arch: &str, output: &Path) -> Result<(), String> {
        let folder = source.parent().ok_or("a source is in a folder")?;
        let name = source.file_name().ok_or("a source has a name")?;
        let target = if arch == "aarch64" { "arm64" } else { "x86" };
        let run = Command::new(&self.program)
            .current_dir(folder)
            .args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-std=gnu11", "-nostdinc"])
            .args(["-Wall", "-Wextra", "-Werror"])
            .arg(format!("-D__TARGET_ARCH_{target}"))
            .arg(format!("-ffile-prefix-map={}=.", folder.display()))
            .arg("-c")
            .arg(name)
            .arg("-o")
            .arg(output)
            .output()
            .map_err(|error| format!("clang cannot be run: {error}"))?;
        if !run.status.success() {
            return Err(String::from_utf8_lossy(&run.stderr).into_owned());
        }
        let bytes = fs::read(output).map_err(|error| error.to_string())?;
        let small = without_debug_sections(&bytes).ok_or("clang wrote no ELF file")?;
        fs::write(output, small).map_err(|error| error.to_string())
    }
}

/// The sources, by name.
///
/// # Errors
///
/// That the folder cannot be listed.
pub fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut sources: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(".bpf.c"))
        .collect();
    sources.sort();
    Ok(sources)
}

/// The name of the object that is made of a source.
pub fn object_name(source: &Path) -> String {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    name.trim_end_matches('c').to_owned() + "o"
}

/// An ELF file without the contents of its sections for debuggers, and without their relocations.
/// All sections keep their number.
fn without_debug_sections(file: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 64;
    let table = usize::try_from(u64::from_le_bytes(*file.get(40..)?.first_chunk()?)).ok()?;
    let count = usize::from(u16::from_le_bytes(*file.get(60..)?.first_chunk()?));
    let names_at = usize::from(u16::from_le_bytes(*file.get(62..)?.first_chunk()?));
    let mut headers: Vec<Vec<u8>> = (0..count)
        .map(|index| Some(file.get(table + index * HEADER..)?.get(..HEADER)?.to_vec()))
        .collect::<Option<_>>()?;
    let word = |header: &[u8], at: usize| -> Option<u64> {
        Some(u64::from_le_bytes(*header.get(at..)?.first_chunk()?))
    };
    let names = usize::try_from(word(headers.get(names_at)?, 24)?).ok()?;
    let mut small = file.get(..HEADER)?.to_vec();
    for header in &mut headers {
        let name = usize::try_from(u32::from_le_bytes(*header.first_chunk()?)).ok()?;
        let name = file.get(names + name..)?.split(|byte| *byte == 0).next()?;
        let is_for_debuggers = [&b".debug_"[..], b".rel.debug_", b".rel.BTF", b".llvm_addrsig"]
            .iter()
            .any(|start| name.starts_with(start));
        let (from, size) = (word(header, 24)?, word(header, 32)?);
        let (from, mut length) = (usize::try_from(from).ok()?, usize::try_from(size).ok()?);
        if is_for_debuggers {
            // SHT_NULL, and nothing in it.
            header.get_mut(4..8)?.fill(0);
            header.get_mut(32..48)?.fill(0);
            length = 0;
        }
        small.resize(small.len().next_multiple_of(8), 0);
        let at = u64::try_from(small.len()).ok()?;
        header.get_mut(24..32)?.copy_from_slice(&at.to_le_bytes());
        // SHT_NOBITS has a size and no bytes.
        let is_empty = header.get(4..8)? == 8_u32.to_le_bytes();
        if !is_empty {
            small.extend_from_slice(file.get(from..from + length)?);
        }
    }
    small.resize(small.len().next_multiple_of(8), 0);
    let table = u64::try_from(small.len()).ok()?;
    small.get_mut(40..48)?.copy_from_slice(&table.to_le_bytes());
    small.extend(headers.concat());
    Some(small)
}
