//! Any bytes, in any pieces, before and instead of a mark: found, refused, or not there yet.

#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::handshake::{
    AgentMark, MarkScanner, Sha256, Token, controller_mark, parse_agent_line,
};

fuzz_target!(|input: (Vec<u8>, u8, bool)| {
    let (bytes, piece, appends_mark) = input;
    let token = Token::new([0x5a; 16]);
    let mark = AgentMark {
        token: token.clone(),
        wire_id: "0123456789abcdef".to_owned(),
        sha256: Sha256([9; 32]),
    };
    let mut stream = bytes.clone();
    if appends_mark {
        stream.extend(mark.to_bytes());
    }
    let mut scanner = MarkScanner::for_agent(&token);
    let mut found = None;
    for piece in stream.chunks(usize::from(piece).max(1)) {
        match scanner.push(piece) {
            Ok(None) => {}
            Ok(Some(line)) => {
                found = Some(line);
                break;
            }
            Err(_) => break,
        }
    }
    if let Some(found) = &found {
        let _ = parse_agent_line(&token, &found.line).map(|mark| mark.check(&mark.sha256, ""));
    }
    // A mark behind any banner that holds none itself is found.
    let holds_none = !bytes.windows(8).any(|window| window == b"\0sysmcp-");
    if appends_mark && holds_none && bytes.len() < 60_000 {
        let found = found.expect("the mark was not found");
        assert_eq!(found.noise, bytes);
        assert_eq!(parse_agent_line(&token, &found.line), Ok(mark));
    }
    let mut scanner = MarkScanner::for_controller(&token);
    let eaten = usize::from(piece) * 32;
    let behind = controller_mark(&token);
    assert!(scanner.push(behind.get(eaten..).unwrap()).unwrap().is_some());
    let _ = Token::parse(&String::from_utf8_lossy(&bytes));
    let _ = Sha256::parse(&String::from_utf8_lossy(&bytes));
});
