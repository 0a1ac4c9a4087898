//! Names of users.
//!
//! Source: `/etc/passwd`, `man 5 passwd`. Users of a directory service are not in it; they are
//! shown by number.

use super::parse::{lines, number};

/// The name of a user, raw.
pub fn name_of(text: &[u8], uid: u32) -> Option<&[u8]> {
    lines(text).find_map(|(line_number, line)| {
        let mut fields = line.split(|byte| *byte == b':');
        let name = fields.next()?;
        let found = number(fields.nth(1)?, line_number).ok()?;
        (found == u64::from(uid) && !name.is_empty()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_with_the_number_names_it() {
        let text = b"root:x:0:0::/root:/bin/sh\nbroken\n+::::\nwww:x:33:33::/:\nwww2:x:33:33::/:\n";
        assert_eq!(name_of(text, 33), Some(b"www".as_slice()));
        assert_eq!(name_of(text, 34), None);
    }
}
