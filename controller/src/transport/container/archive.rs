//! A tar archive with the agent in a folder, as an engine's `cp` reads one from its stdin.
//!
//! The format is POSIX ustar (IEEE Std 1003.1, pax, "ustar Interchange Format"): a header of 512
//! bytes before each member, data filled up to a multiple of that, and two empty blocks at the end.

use protocol::sweep::FILE;

/// Bytes of a block.
const BLOCK: usize = 512;

/// An archive of one folder with one file `a` in it, both root's. Others may read and run them, as the
/// container's own user may be any; nobody but root may change them.
///
/// `folder` is a relative path of at most 90 bytes.
pub fn archive(folder: &str, file: &[u8]) -> Vec<u8> {
    let mut archive = header(&format!("{folder}/"), b'5', 0).to_vec();
    archive.extend(header(&format!("{folder}/{FILE}"), b'0', file.len()));
    archive.extend_from_slice(file);
    archive.resize(archive.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    archive
}

/// A member's header.
fn header(name: &str, kind: u8, bytes: usize) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |offset: usize, field: &[u8]| {
        header.iter_mut().skip(offset).zip(field).for_each(|(place, byte)| *place = *byte);
    };
    put(0, name.as_bytes());
    put(100, b"0000755\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{bytes:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    // While it is added up, the sum itself counts as blanks.
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    let sum = format!("{sum:06o}\0 ");
    header.iter_mut().skip(148).zip(sum.bytes()).for_each(|(place, byte)| *place = byte);
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write as _,
        os::unix::fs::PermissionsExt as _,
        process::{Command, Stdio},
    };

    #[test]
    fn tar_unpacks_it_and_the_file_can_be_run() {
        let folder = tempfile::tempdir().unwrap();
        let content = b"#!/bin/sh\nexit 7\n";
        let mut tar = Command::new("tar")
            .arg("-xpC")
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        tar.stdin.take().unwrap().write_all(&archive(".sysmcp-x", content)).unwrap();
        let output = tar.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let file = folder.path().join(".sysmcp-x/a");
        assert_eq!(std::fs::read(&file).unwrap(), content);
        for path in [&file, &folder.path().join(".sysmcp-x")] {
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o7777, 0o755);
        }
        assert_eq!(Command::new(&file).status().unwrap().code(), Some(7));
    }

    #[test]
    fn it_ends_on_a_whole_block_with_two_empty_ones() {
        for bytes in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1] {
            let archive = archive(".sysmcp-x", &vec![1; bytes]);
            assert_eq!(archive.len() % BLOCK, 0, "{bytes}");
            assert!(archive.ends_with(&[0; 2 * BLOCK]), "{bytes}");
        }
    }
}
