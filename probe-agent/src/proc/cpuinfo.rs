//! Processors as the kernel describes them to people, for where `/sys` does not tell.
//!
//! Source: `/proc/cpuinfo`, always there. Kernel reference: `arch/*/kernel/`, a file of each
//! architecture's own; what is in it differs. x86 and ia64 name the socket and the core of each
//! processor (`physical id`, `core id`), where the machine has more than one of them; the others
//! do not. A kernel for one processor may not number it.

use super::parse::{ParseError, lines, number};
use std::collections::{BTreeMap, BTreeSet};

/// What the file says of the processors that are online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuInfo {
    /// Hardware threads.
    pub processors: u32,
    /// Cores and sockets, where every processor says which it is of.
    pub places: Option<Places>,
}

/// What processors are parts of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Cores, all sockets together.
    pub cores: u32,
    /// Sockets.
    pub sockets: u32,
}

/// One processor, as far as it says.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    socket: Option<u64>,
    core: Option<u64>,
    /// Cores of its socket.
    cores: Option<u64>,
}

/// Parses the file.
///
/// # Errors
///
/// When it numbers no processor and does not say how many there are.
pub fn parse(text: &[u8]) -> Result<CpuInfo, ParseError> {
    let mut found: Vec<Place> = Vec::new();
    let mut total = None;
    for (line_number, line) in lines(text) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at_checked(colon).unwrap_or_default();
        let value = number(value.get(1..).unwrap_or_default().trim_ascii(), line_number).ok();
        match name.trim_ascii() {
            b"processor" if value.is_some() => found.push(Place::default()),
            // s390x has one line for each: `processor 0: version = FF`.
            name if is_numbered(name) => found.push(Place::default()),
            // alpha, and s390x before its list.
            b"cpus active" | b"# processors" => total = value,
            b"cpus detected" => total = total.or(value),
            b"physical id" => set(&mut found, |place| place.socket = value),
            b"core id" => set(&mut found, |place| place.core = value),
            b"cpu cores" => set(&mut found, |place| place.cores = value),
            _ => {}
        }
    }
    let counted = u64::try_from(found.len()).ok().filter(|count| *count > 0);
    let processors = counted.or(total).ok_or(ParseError::MissingLine { expected: "processor" })?;
    Ok(CpuInfo {
        processors: u32::try_from(processors).unwrap_or(u32::MAX),
        places: places(&found),
    })
}

fn is_numbered(name: &[u8]) -> bool {
    name.strip_prefix(b"processor ").is_some_and(|rest| number(rest.trim_ascii(), 1).is_ok())
}

fn set(found: &mut [Place], change: impl FnOnce(&mut Place)) {
    if let Some(place) = found.last_mut() {
        change(place);
    }
}

/// Counts cores and sockets; `None` where one processor does not say which it is of.
///
/// A core's number is unique within its socket only, and where a socket holds two dies not even
/// there; then the socket says how many it has.
fn places(found: &[Place]) -> Option<Places> {
    let mut cores = BTreeSet::new();
    let mut sockets = BTreeMap::new();
    for place in found {
        cores.insert((place.socket?, place.core?));
        sockets.insert(place.socket?, place.cores);
    }
    let told: Option<u64> = sockets.values().copied().sum();
    let numbered = u64::try_from(cores.len()).unwrap_or(u64::MAX);
    let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    (numbered > 0).then(|| Places {
        cores: count(told.filter(|told| *told > 0).unwrap_or(numbered)),
        sockets: count(u64::try_from(sockets.len()).unwrap_or(u64::MAX)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn processors_are_counted_and_placed_where_they_say_where_they_are() {
        let places = |cores, sockets| Some(Places { cores, sockets });
        let cases: [(&str, &str, u32, Option<Places>); 8] = [
            (
                "two threads of one core, and one of another socket",
                "processor\t: 0\nphysical id\t: 0\ncore id\t\t: 0\n\nprocessor\t: 1\nphysical id\t: \
                 0\ncore id\t\t: 0\n\nprocessor\t: 2\nphysical id\t: 1\ncore id\t\t: 0\n",
                3,
                places(2, 2),
            ),
            (
                "two dies in a socket, which number their cores alike",
                "processor: 0\nphysical id: 0\ncore id: 0\ncpu cores: 2\n\
                 processor: 1\nphysical id: 0\ncore id: 0\ncpu cores: 2\n",
                2,
                places(2, 1),
            ),
            (
                "one does not say",
                "processor: 0\nphysical id: 0\ncore id: 0\nprocessor: 1\n",
                2,
                None,
            ),
            ("aarch64", "Processor\t: AArch64 rev 0\nprocessor\t: 0\nprocessor\t: 1\n", 2, None),
            (
                "s390x",
                "# processors    : 2\nprocessor 0: version = FF\nprocessor 1: v = F\n",
                2,
                None,
            ),
            ("alpha", "cpu\t: Alpha\ncpus detected\t: 4\n", 4, None),
            ("alpha with one off", "cpus detected : 4\ncpus active : 3\n", 3, None),
            ("a name is no number", "processor : 0\nprocessor speed: 3\n", 1, None),
        ];
        for (name, text, processors, places) in cases {
            assert_eq!(parse(text.as_bytes()), Ok(CpuInfo { processors, places }), "{name}");
        }
        let error = parse(b"cpu : 750FX\nclock : 700MHz\n").unwrap_err();
        assert_eq!(error.to_string(), "no `processor` line");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_file_or_an_error(text in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&text);
        }
    }
}
