//! A file that is made here, byte by byte, and this test itself.

use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;

/// This test itself: an executable as Rust's linker makes it, with 40 sections.
static THIS_TEST: LazyLock<Vec<u8>> = LazyLock::new(|| std::fs::read("/proc/self/exe").unwrap());

/// A file of 4 KiB: headers, a page for data that begins the page in which code begins as well.
fn small() -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let mut put = |numbers: &[(u64, usize)]| {
        for (number, bytes) in numbers {
            file.extend(&number.to_le_bytes()[..*bytes]);
        }
    };
    // Kind, machine, version, entry, program headers, section headers, flags, and six sizes.
    put(&[(3, 2), (62, 2), (1, 4), (0, 8), (64, 8), (0x200, 8), (0, 4)]);
    put(&[(64, 2), (56, 2), (4, 2), (64, 2), (4, 2), (3, 2)]);
    let mut segment = |kind, flags, offset, svma, in_file, in_memory, align| {
        put(&[(kind, 4), (flags, 4), (offset, 8), (svma, 8), (svma, 8)]);
        put(&[(in_file, 8), (in_memory, 8), (align, 8)]);
    };
    segment(1, 4, 0, 0, 0xa40, 0xa40, 0x1000);
    segment(1, 5, 0xa40, 0x1a40, 0x500, 0x500, 0x1000);
    segment(0x6474_e550, 4, 0x300, 0x300, 0x20, 0x20, 4);
    segment(4, 4, 0x320, 0x320, 0x18, 0x18, 4);
    file.resize(0x200, 0);
    let mut put = |numbers: &[(u64, usize)]| {
        for (number, bytes) in numbers {
            file.extend(&number.to_le_bytes()[..*bytes]);
        }
    };
    let mut section = |name, kind, flags, svma, offset, bytes| {
        put(&[(name, 4), (kind, 4), (flags, 8), (svma, 8), (offset, 8), (bytes, 8)]);
        put(&[(0, 4), (0, 4), (1, 8), (0, 8)]);
    };
    section(0, 0, 0, 0, 0, 0);
    section(1, 1, 6, 0x1a40, 0xa40, 0x500);
    section(7, 1, 0, 0, 0x340, 0x10);
    section(22, 3, 0, 0, 0x360, 0x20);
    file.resize(0x320, 0);
    file.extend(b"\x04\0\0\0\x08\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04\x05\x06\x07\x08");
    file.resize(0x340, 0);
    file.extend(b"x.debug\0\x78\x56\x34\x12");
    file.resize(0x360, 0);
    file.extend(b"\0.text\0.gnu_debuglink\0.strs\0");
    file.resize(0x1000, 0xcc);
    file
}

#[test]
fn what_the_headers_say_is_found() {
    let bytes = small();
    let file = ElfFile::parse(&bytes).unwrap();
    assert_eq!((file.machine(), file.is_position_independent()), (Machine::X86_64, true));
    let loads: Vec<_> =
        file.loads().iter().map(|load| (load.svma.clone(), load.is_executable)).collect();
    assert_eq!(loads, [(0..0xa40, false), (0x1a40..0x1f40, true)]);
    assert_eq!(file.unwind_table(), Some(0x300..0x320));
    let text = file.section(b".text").unwrap();
    assert_eq!((text.svma_range(), text.is_executable), (0x1a40..0x1f40, true));
    assert_eq!(text.bytes().len(), 0x500);
    assert_eq!(file.build_id().unwrap().to_string(), "0102030405060708");
    assert_eq!(file.debug_link(), Some(DebugLink { name: b"x.debug", crc: 0x1234_5678 }));
    assert!(file.section(b".debug_info").is_none());
}

#[test]
fn an_offset_in_a_shared_page_is_that_of_code_where_code_is_asked_for() {
    let bytes = small();
    let file = ElfFile::parse(&bytes).unwrap();
    let cases = [
        ("code", 0xa40, Some(0x1a40), Some(0x1a40)),
        ("the end of code", 0xf3f, Some(0x1f3f), Some(0x1f3f)),
        ("the page in which data and code begin", 0, Some(0), Some(0x1000)),
        ("after everything", 0xf40, None, None),
        ("the largest", u64::MAX, None, None),
    ];
    for (case, offset, of_byte, of_mapping) in cases {
        assert_eq!(file.svma_of_file_offset(offset), of_byte, "{case}");
        assert_eq!(file.svma_of_code_mapping(offset), of_mapping, "{case}");
    }
}

#[test]
fn what_is_no_such_file_is_refused() {
    let mut big_endian = small();
    big_endian[5] = 2;
    let mut small_class = small();
    small_class[4] = 1;
    let mut headers_outside = small();
    headers_outside[32..40].fill(0xff);
    let cases = [
        ("nothing", vec![], ElfError::NotElf),
        ("a script", b"#!/bin/sh\n".to_vec(), ElfError::NotElf),
        ("only the mark", b"\x7fELF".to_vec(), ElfError::OtherClass),
        ("only the class", b"\x7fELF\x02\x01".to_vec(), ElfError::ProgramHeaders),
        ("big-endian", big_endian, ElfError::OtherClass),
        ("32-bit", small_class, ElfError::OtherClass),
        ("program headers beyond its end", headers_outside, ElfError::ProgramHeaders),
    ];
    for (case, bytes, error) in cases {
        assert_eq!(ElfFile::parse(&bytes).unwrap_err(), error, "{case}");
    }
}

#[test]
fn a_file_without_section_headers_is_read() {
    let mut bytes = small();
    bytes[40..48].fill(0xff);
    let file = ElfFile::parse(&bytes).unwrap();
    assert_eq!(file.sections().count(), 0);
    assert_eq!(file.build_id().unwrap().bytes(), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_debug_link_that_leads_out_of_its_folder_is_none() {
    for name in [&b"../x\0\0\0\0"[..], b"..\0\0", b"\0\0\0\0", b"/x\0\0"] {
        let mut bytes = small();
        bytes[0x340..0x350].fill(0);
        bytes[0x340..0x340 + name.len()].copy_from_slice(name);
        assert_eq!(ElfFile::parse(&bytes).unwrap().debug_link(), None, "{name:?}");
    }
}

/// A header of a packed section, and what follows it.
fn packed(method: u32, size: u64, bytes: &[u8]) -> Vec<u8> {
    let mut packed = method.to_le_bytes().to_vec();
    packed.extend([0; 4]);
    packed.extend(size.to_le_bytes());
    packed.extend(8_u64.to_le_bytes());
    packed.extend(bytes);
    packed
}

#[test]
fn packed_bytes_are_unpacked_or_refused() {
    let zlib = miniz_oxide::deflate::compress_to_vec_zlib(b"abcabcabc", 6);
    let unpacked = compressed::unpack(&packed(1, 9, &zlib), 9);
    assert_eq!(unpacked, Ok(b"abcabcabc".to_vec()));
    let cases = [
        ("nothing", vec![], "ends before"),
        ("zstd", packed(2, 9, &zlib), "zstd"),
        ("unknown", packed(3, 9, &zlib), "not known"),
        ("more than is read", packed(1, 10, &zlib), "larger"),
        ("shorter than it says", packed(1, 8, &zlib), "longer than its header"),
        ("more than any file", packed(1, u64::MAX, &zlib), "larger"),
        ("not zlib", packed(1, 9, b"abcabcabc"), "not those of zlib"),
    ];
    for (case, bytes, expected) in cases {
        let error = compressed::unpack(&bytes, 9).unwrap_err().to_string();
        assert!(error.contains(expected), "{case}: {error}");
    }
    assert!(compressed::unpack(&packed(1, 10, &zlib), 10).is_err(), "longer than it is");
}

#[test]
fn this_program_is_read() {
    let file = ElfFile::parse(&THIS_TEST).unwrap();
    assert!(file.section(b".text").unwrap().bytes().len() > 100_000);
    assert!(file.unwind_table().is_some());
    assert!(file.mapped_at(file.unwind_table().unwrap().start).is_some());
}

/// Asks everything of a file.
fn ask(bytes: &[u8]) {
    let Ok(file) = ElfFile::parse(bytes) else { return };
    let _ = (file.build_id(), file.debug_link(), file.alternate_link(), file.unwind_table());
    for section in file.sections() {
        let _ = (section.svma_range(), section.bytes(), section.unpacked(1 << 16));
    }
    for at in [0, 1, 0x1000, 0x1a40, u64::MAX] {
        let _ = (file.svma_of_file_offset(at), file.svma_of_code_mapping(at), file.mapped_at(at));
    }
    for load in file.loads() {
        let _ = (file.svma_of_code_mapping(load.file.start), file.mapped_at(load.svma.start));
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        changes in prop::collection::vec((0_usize..0x400, any::<u8>()), 1..8),
        cut in 0_usize..0x1001,
    ) {
        let mut bytes = small();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        bytes.truncate(cut.max(0x40));
        ask(&bytes);
    }

    #[test]
    fn no_large_numbers_make_it_panic(
        at in (0_usize..0x80).prop_map(|word| word * 8),
        number in prop_oneof![Just(u64::MAX), Just(i64::MAX as u64), Just(u64::MAX - 0xfff), any::<u64>()],
    ) {
        let mut bytes = small();
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        ask(&bytes);
    }
}
