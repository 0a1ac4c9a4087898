//! Which distribution it is.
//!
//! Source: `/etc/os-release`, else `/usr/lib/os-release`, `man 5 os-release`.

use super::{Root, parse::lines};

/// The names of a distribution: its own, then those it descends from, the nearest first.
pub fn read(root: &Root) -> Vec<String> {
    let mut text = Vec::new();
    for path in ["etc/os-release", "usr/lib/os-release"] {
        if root.read(path, &mut text).is_ok() {
            return parse(&text);
        }
    }
    Vec::new()
}

/// Parses the file: `ID`, then `ID_LIKE`.
pub fn parse(text: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    for key in ["ID=", "ID_LIKE="] {
        let value = lines(text).find_map(|(_, line)| line.strip_prefix(key.as_bytes()));
        let value = value.map(String::from_utf8_lossy).unwrap_or_default();
        let words = value.trim_matches(['"', '\'']).split_whitespace();
        names.extend(words.map(str::to_ascii_lowercase));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_name_comes_before_those_it_descends_from() {
        let cases = [
            ("NAME=\"Debian GNU/Linux\"\nID=debian\n", vec!["debian"]),
            (
                "ID_LIKE=\"rhel centos fedora\"\nID=\"rocky\"\n",
                vec!["rocky", "rhel", "centos", "fedora"],
            ),
            ("ID='alpine'\n", vec!["alpine"]),
            ("", vec![]),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text.as_bytes()), want);
        }
    }
}
