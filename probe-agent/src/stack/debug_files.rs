//! Where the names are that were taken out of a file: in one for debuggers, beside it or apart.
//!
//! As GDB looks for them, "Debugging Information in Separate Files" in its manual. A file counts only
//! when it is of the same build: one of another version would give every function a wrong name.

use super::elf::{BuildId, ElfFile};

/// The folder in which distributions keep them.
const FOLDER: &[u8] = b"/usr/lib/debug";

/// The largest file that is read through to see whether it is the right one: a fifth of a second. Only
/// one without a build-id is, and linkers have made those for fifteen years.
const MOST_CHECKED_BYTES: usize = 64 << 20;

/// Opens files as the process sees them, below `/proc/PID/root`.
pub trait Files {
    /// The bytes of a file: mapped, or read.
    type Bytes: AsRef<[u8]>;

    /// Opens a path that begins with a slash. None where there is no such file, or where a link would
    /// lead out of the process's root.
    fn open(&self, path: &[u8]) -> Option<Self::Bytes>;
}

/// What there is for debuggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup<B> {
    /// A file of this build.
    Found {
        /// Its bytes.
        bytes: B,
        /// Its path.
        path: Vec<u8>,
    },
    /// Only a file of another build: the package was updated, and the process runs on what was there
    /// before, or the other way round.
    OfAnotherBuild {
        /// Its path.
        path: Vec<u8>,
    },
    /// None.
    None,
}

/// Looks for the file that was split off from `image`, which is at `image_path`.
pub fn split_from<F: Files>(image: &ElfFile, image_path: &[u8], files: &F) -> Lookup<F::Bytes> {
    let build_id = image.build_id();
    let link = image.debug_link();
    let of_this_build = |candidate: &ElfFile| match (build_id, candidate.build_id()) {
        (Some(wanted), Some(found)) => wanted == found,
        (Some(_), None) | (None, Some(_)) | (None, None) => {
            let is_small = candidate.bytes().len() <= MOST_CHECKED_BYTES;
            is_small && link.is_some_and(|link| link.crc == crc(candidate.bytes()))
        }
    };
    let mut candidates = Vec::new();
    candidates.extend(build_id.as_ref().map(by_build_id));
    if let Some(link) = link {
        let folder = folder_of(image_path);
        candidates.push([folder, b"/", link.name].concat());
        candidates.push([folder, b"/.debug/", link.name].concat());
        candidates.push([FOLDER, folder, b"/", link.name].concat());
    }
    // A link may name the file itself, which has nothing more to say.
    candidates.retain(|path| path != image_path);
    first_of(&candidates, files, of_this_build)
}

/// Looks for the file with what the one for debuggers, at `path`, has in common with others.
pub fn shared_with<F: Files>(debug: &ElfFile, path: &[u8], files: &F) -> Lookup<F::Bytes> {
    let Some(link) = debug.alternate_link() else { return Lookup::None };
    let beside = match link.path.starts_with(b"/") {
        true => link.path.to_vec(),
        false => [folder_of(path), b"/", link.path].concat(),
    };
    let candidates = [resolved(&beside), by_build_id(&link.build_id)];
    first_of(&candidates, files, |candidate| candidate.build_id() == Some(link.build_id))
}

fn first_of<F: Files>(
    candidates: &[Vec<u8>],
    files: &F,
    is_right: impl Fn(&ElfFile) -> bool,
) -> Lookup<F::Bytes> {
    let mut wrong = Lookup::None;
    for path in candidates {
        let Some(bytes) = files.open(path) else { continue };
        let Ok(candidate) = ElfFile::parse(bytes.as_ref()) else { continue };
        if is_right(&candidate) {
            return Lookup::Found { bytes, path: path.clone() };
        }
        if matches!(wrong, Lookup::None) {
            wrong = Lookup::OfAnotherBuild { path: path.clone() };
        }
    }
    wrong
}

fn by_build_id(id: &BuildId) -> Vec<u8> {
    let digits = id.to_string();
    let (first, rest) = digits.split_at_checked(2).unwrap_or((&digits, ""));
    [FOLDER, format!("/.build-id/{first}/{rest}.debug").as_bytes()].concat()
}

/// What stands before the last slash.
fn folder_of(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    path.get(..slash).unwrap_or_default()
}

/// A path without `.` and `..`, which never leads above the root.
fn resolved(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            name => kept.push(name),
        }
    }
    kept.iter().flat_map(|part| [b"/", *part].concat()).collect()
}

/// CRC-32 as in zlib, by which a link knows the file that it means.
fn crc(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let mut table = [0_u32; 256];
    for (index, place) in (0_u32..).zip(&mut table) {
        *place =
            (0..8).fold(
                index,
                |value, _| {
                    if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 }
                },
            );
    }
    let step = |crc: u32, byte: &u8| {
        let index = usize::from(crc.to_le_bytes().first().copied().unwrap_or(0) ^ byte);
        crc >> 8 ^ table.get(index).copied().unwrap_or(0)
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_that_of_zlib() {
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc(b""), 0);
    }

    #[test]
    fn a_path_does_not_lead_above_the_root() {
        let cases: [(&[u8], &[u8]); 4] = [
            (b"/usr/lib/debug/../../lib/./x", b"/usr/lib/x"),
            (b"/../../etc/x", b"/etc/x"),
            (b"//a//b/", b"/a/b"),
            (b"a", b"/a"),
        ];
        for (path, expected) in cases {
            assert_eq!(resolved(path), expected, "{path:?}");
        }
        assert_eq!(folder_of(b"/usr/bin/x"), b"/usr/bin");
        assert_eq!(folder_of(b"/x"), b"");
    }
}
