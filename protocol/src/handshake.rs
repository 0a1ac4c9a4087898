//! The first bytes each way, before any frame.
//!
//! What a login shell prints (banners, start-up files) comes before the agent speaks, so the agent
//! first sends a mark: a NUL, a name, the session's token, the identity of the wire format and the
//! sha256 of the running file, as one line of text. Text, because a peer of another build must be
//! able to read at least this much. The controller checks all four before it decodes a frame.
//!
//! The other way, the controller sends a mark of its own behind the agent's bytes: the tools that
//! unpack them on the target may read further than they should, so the agent skips whatever comes
//! before the mark, and the controller pads it.

use std::fmt;

/// Starts the agent's mark. No banner contains a NUL by accident.
const AGENT_MARK: &[u8] = b"\0sysmcp-agent ";

/// Starts the controller's mark.
const CONTROLLER_MARK: &[u8] = b"\x01sysmcp-go ";

/// Zero bytes that the controller sends before its mark. A tool that over-reads takes these.
pub const PADDING_BYTES: usize = 8192;

/// The most bytes that may precede the agent's mark. More is not a banner.
pub const MAX_NOISE_BYTES: usize = 64 << 10;

/// Bytes of a mark's line at most, without its start.
const MAX_LINE_BYTES: usize = 160;

/// Ties what comes back to the session that asked: 32 hexadecimal digits, drawn at random.
///
/// It is not a secret. It keeps old output, or an echo of the command, from passing for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Makes a token of random bytes.
    pub fn new(random: [u8; 16]) -> Self {
        Self(random.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Reads a token from text.
    ///
    /// # Errors
    ///
    /// Anything but 32 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, HandshakeError> {
        if text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(HandshakeError::NotAToken)
        }
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A sha256 digest, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sha256(pub [u8; 32]);

impl Sha256 {
    /// Reads a digest from text.
    pub fn parse(text: &str) -> Option<Self> {
        let mut digest = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (place, pair) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
            *place = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(digest))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The line with which an agent announces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentMark {
    /// The token it was started with.
    pub token: Token,
    /// Its [`crate::WIRE_ID`].
    pub wire_id: String,
    /// The digest of the file that runs.
    pub sha256: Sha256,
}

impl AgentMark {
    /// The bytes on the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = AGENT_MARK.to_vec();
        let line = format!("{} {} {}\n", self.token.as_str(), self.wire_id, self.sha256);
        bytes.extend_from_slice(line.as_bytes());
        bytes
    }

    /// Checks that the agent is the one that was sent, of this very build.
    ///
    /// # Errors
    ///
    /// The first difference.
    pub fn check(&self, sent: &Sha256, wire_id: &str) -> Result<(), HandshakeError> {
        if self.wire_id != wire_id {
            return Err(HandshakeError::OtherBuild {
                ours: wire_id.to_owned(),
                theirs: self.wire_id.clone(),
            });
        }
        if self.sha256 != *sent {
            return Err(HandshakeError::OtherFile { ours: *sent, theirs: self.sha256 });
        }
        Ok(())
    }
}

/// Looks for a mark in a stream of bytes.
#[derive(Debug)]
pub struct MarkScanner {
    mark: Vec<u8>,
    bytes: Vec<u8>,
    max_noise_bytes: usize,
}

/// What a scanner has found.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// What came before the mark.
    pub noise: Vec<u8>,
    /// The line after the mark's start, without its end.
    pub line: String,
    /// What came after the line.
    pub rest: Vec<u8>,
}

impl MarkScanner {
    /// Waits for an agent's mark with this token.
    pub fn for_agent(token: &Token) -> Self {
        let mut mark = AGENT_MARK.to_vec();
        mark.extend_from_slice(token.as_str().as_bytes());
        Self { mark, bytes: Vec::new(), max_noise_bytes: MAX_NOISE_BYTES }
    }

    /// Waits for the controller's mark with this token, behind what an unpacking tool left over.
    pub fn for_controller(token: &Token) -> Self {
        let mut mark = CONTROLLER_MARK.to_vec();
        mark.extend_from_slice(token.as_str().as_bytes());
        Self { mark, bytes: Vec::new(), max_noise_bytes: PADDING_BYTES + MAX_NOISE_BYTES }
    }

    /// Waits for any other line that starts with `mark`.
    pub fn for_line(mark: &str) -> Self {
        Self { mark: mark.as_bytes().to_vec(), bytes: Vec::new(), max_noise_bytes: MAX_NOISE_BYTES }
    }

    /// Adds bytes; returns what was found once the mark's line is complete.
    ///
    /// # Errors
    ///
    /// [`HandshakeError::TooMuchNoise`] when too many bytes came without a mark, and
    /// [`HandshakeError::BadLine`] when its line does not end or is not text.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Found>, HandshakeError> {
        self.bytes.extend_from_slice(bytes);
        let Some(start) = find(&self.bytes, &self.mark) else {
            if self.bytes.len() > self.max_noise_bytes {
                return Err(HandshakeError::TooMuchNoise { bytes: self.bytes.len() });
            }
            return Ok(None);
        };
        let noise = self.bytes.get(..start).unwrap_or_default();
        let after = self.bytes.get(start + self.mark.len()..).unwrap_or_default();
        let Some(length) = after.iter().position(|byte| *byte == b'\n') else {
            if after.len() > MAX_LINE_BYTES {
                return Err(HandshakeError::BadLine);
            }
            return Ok(None);
        };
        let (line, rest) = after.split_at(length);
        let line = std::str::from_utf8(line).map_err(|_| HandshakeError::BadLine)?;
        Ok(Some(Found {
            noise: noise.to_vec(),
            line: line.trim().to_owned(),
            rest: rest.get(1..).unwrap_or_default().to_vec(),
        }))
    }

    /// What came so far, for an error message about a mark that never came.
    pub fn noise(&self) -> &[u8] {
        &self.bytes
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Reads the rest of an agent's mark, as a [`MarkScanner`] found it.
///
/// # Errors
///
/// [`HandshakeError::BadLine`] for anything but an identity and a digest.
pub fn parse_agent_line(token: &Token, line: &str) -> Result<AgentMark, HandshakeError> {
    let (wire_id, sha256) = line.split_once(' ').ok_or(HandshakeError::BadLine)?;
    let sha256 = Sha256::parse(sha256).ok_or(HandshakeError::BadLine)?;
    // It is repeated in an error, so it may not be just any text.
    if wire_id.len() > 32 || !wire_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(HandshakeError::BadLine);
    }
    Ok(AgentMark { token: token.clone(), wire_id: wire_id.to_owned(), sha256 })
}

/// The bytes with which the controller announces its first frame: padding, then its mark.
pub fn controller_mark(token: &Token) -> Vec<u8> {
    let mut bytes = vec![0; PADDING_BYTES];
    bytes.extend_from_slice(CONTROLLER_MARK);
    bytes.extend_from_slice(token.as_str().as_bytes());
    bytes.push(b'\n');
    bytes
}

/// Why the peer is not the agent that was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The text is not a token.
    #[error("a token is 32 hexadecimal digits")]
    NotAToken,
    /// Too much came before the mark, or it never came.
    #[error("{bytes} bytes came and no agent's mark among them")]
    TooMuchNoise {
        /// How many.
        bytes: usize,
    },
    /// The mark's line is not one.
    #[error("the mark's line is malformed")]
    BadLine,
    /// The agent speaks another build's messages.
    #[error("the agent is of another build: its wire format is {theirs}, ours is {ours}")]
    OtherBuild {
        /// This build's identity.
        ours: String,
        /// The agent's.
        theirs: String,
    },
    /// The file that runs is not the one that was sent.
    #[error("another file runs than was sent: sha256 {theirs}, sent {ours}")]
    OtherFile {
        /// Digest of what was sent.
        ours: Sha256,
        /// Digest of what runs.
        theirs: Sha256,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token() -> Token {
        Token::new([0xab; 16])
    }

    fn mark() -> AgentMark {
        AgentMark {
            token: token(),
            wire_id: "0123456789abcdef".to_owned(),
            sha256: Sha256([7; 32]),
        }
    }

    fn scan(scanner: &mut MarkScanner, bytes: &[u8], piece: usize) -> Option<Found> {
        let mut pieces = bytes.chunks(piece);
        while let Some(piece) = pieces.next() {
            if let Some(mut found) = scanner.push(piece).unwrap() {
                found.rest.extend(pieces.flatten());
                return Some(found);
            }
        }
        None
    }

    #[test]
    fn another_build_and_another_file_are_told_apart() {
        let cases = [
            ("same", Sha256([7; 32]), "0123456789abcdef", None),
            ("other file", Sha256([8; 32]), "0123456789abcdef", Some("another file runs")),
            ("other build", Sha256([7; 32]), "fedcba9876543210", Some("another build")),
        ];
        for (name, sent, wire_id, want) in cases {
            let error = mark().check(&sent, wire_id).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), want.is_some(), "{name}");
            assert!(error.unwrap_or_default().contains(want.unwrap_or_default()), "{name}");
        }
    }

    #[test]
    fn a_mark_with_another_token_is_noise() {
        let mut scanner = MarkScanner::for_agent(&Token::new([1; 16]));
        assert_eq!(scanner.push(&mark().to_bytes()), Ok(None));
    }

    #[test]
    fn endless_noise_is_refused() {
        let mut scanner = MarkScanner::for_agent(&token());
        let error = scanner.push(&vec![b'x'; MAX_NOISE_BYTES + 1]).unwrap_err();
        assert_eq!(error, HandshakeError::TooMuchNoise { bytes: MAX_NOISE_BYTES + 1 });
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut scanner = MarkScanner::for_line("READY");
        assert_eq!(scanner.push(b"READY"), Ok(None));
        assert_eq!(scanner.push(&[b'x'; 200]), Err(HandshakeError::BadLine));
    }

    proptest! {
        #[test]
        fn a_mark_is_found_behind_any_banner_and_in_any_pieces(
            noise in prop::collection::vec(any::<u8>(), 0..300),
            rest in prop::collection::vec(any::<u8>(), 0..50),
            piece in 1_usize..40,
        ) {
            let mut bytes = noise.clone();
            bytes.extend(mark().to_bytes());
            bytes.extend(&rest);
            let found = scan(&mut MarkScanner::for_agent(&token()), &bytes, piece).unwrap();
            prop_assert_eq!(found.noise, noise);
            prop_assert_eq!(found.rest, rest);
            prop_assert_eq!(parse_agent_line(&token(), &found.line).unwrap(), mark());
        }

        #[test]
        fn the_controllers_mark_is_found_behind_what_a_tool_left_over(eaten in 0_usize..PADDING_BYTES) {
            let bytes = controller_mark(&token());
            let mut scanner = MarkScanner::for_controller(&token());
            let found = scanner.push(bytes.get(eaten..).unwrap()).unwrap().unwrap();
            prop_assert_eq!(found.noise.len(), PADDING_BYTES - eaten);
            prop_assert!(found.rest.is_empty());
        }

        #[test]
        fn any_line_is_a_mark_or_refused(line in "\\PC{0,120}") {
            let _ = parse_agent_line(&token(), &line);
        }
    }
}
