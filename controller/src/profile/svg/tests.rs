//! What a picture holds, and that no name can make it hold anything else.

use super::*;
use proptest::prelude::*;
use roxmltree::{Document, Node};

const OPTIONS: Options<'static> = Options {
    title: "worker 1 (pid 4711)",
    subtitle: "495 samples in 5.0 s",
    unit: "samples",
    is_reversed: false,
};

const REVERSED: Options<'static> = Options { is_reversed: true, ..OPTIONS };

fn frame(name: &str) -> Frame<'_> {
    Frame { name, module: None, kind: Kind::User }
}

fn stacks<'s>(folded: &[(&'s str, u64)]) -> Vec<(Vec<Frame<'s>>, u64)> {
    folded.iter().map(|(stack, weight)| (stack.split(';').map(frame).collect(), *weight)).collect()
}

/// Calls of a picture: name, row, left and width in percent.
fn calls(svg: &str) -> Vec<(String, u32, String, String)> {
    let document = Document::parse(svg).unwrap();
    let is_call = |node: &Node<'_, '_>| {
        node.has_tag_name("svg")
            && node.attribute("class").is_some_and(|class| class.starts_with("f "))
    };
    document
        .descendants()
        .filter(is_call)
        .map(|call| {
            let number = |name| {
                let text = call.attribute(name).unwrap().trim_end_matches('%');
                format!("{:.1}", text.parse::<f64>().unwrap())
            };
            let row = call.attribute("y").unwrap().parse::<u32>().unwrap() / 18;
            (title(call).lines().next().unwrap().to_owned(), row, number("x"), number("width"))
        })
        .collect()
}

fn title<'d>(call: Node<'d, '_>) -> &'d str {
    call.children().find(|child| child.has_tag_name("title")).unwrap().text().unwrap()
}

fn call(name: &str, row: u32, left: &str, width: &str) -> (String, u32, String, String) {
    (name.to_owned(), row, left.to_owned(), width.to_owned())
}

#[test]
fn calls_are_as_wide_as_their_shares_and_below_their_callers() {
    let stacks = stacks(&[("main;idle", 1), ("main;work;hash", 6), ("main;work", 2), ("start", 1)]);
    let want = [
        call("main", 0, "0.0", "90.0"),
        call("start", 0, "90.0", "10.0"),
        call("work", 1, "0.0", "80.0"),
        call("idle", 1, "80.0", "10.0"),
        call("hash", 2, "0.0", "60.0"),
    ];
    let mut found = calls(&flame(stacks.clone(), &OPTIONS));
    found.sort_by_key(|call| call.1);
    assert_eq!(found, want);
    let reversed = calls(&flame(stacks, &REVERSED));
    assert!(reversed.contains(&call("hash", 0, "0.0", "60.0")), "{reversed:?}");
    assert!(reversed.contains(&call("work", 1, "0.0", "60.0")), "{reversed:?}");
}

#[test]
fn what_is_gone_is_in_a_difference_too() {
    let before = stacks(&[("main;old", 40), ("main;same", 60)]);
    let after = stacks(&[("main;new", 4), ("main;same", 6)]);
    let svg = differential(before, after, &OPTIONS);
    let found = calls(&svg);
    assert!(found.contains(&call("same", 1, "0.0", "60.0")), "{found:?}");
    assert!(found.contains(&call("old", 1, "80.0", "20.0")), "{found:?}");
    for words in ["▼ old", "▲ new", "40.0 % → 0 % (-40.0)", "0 % → 40.0 % (+40.0)"] {
        assert!(svg.contains(words), "{words}");
    }
    assert!(!svg.contains("▲ same") && !svg.contains("▼ same"));
}

#[test]
fn the_same_stacks_make_the_same_file() {
    let one = [("main;a", 1), ("main;b", 1), ("main;c", 1)];
    let svg = flame(stacks(&one), &OPTIONS);
    assert_eq!(svg, flame(stacks(&one), &OPTIONS));
    assert!(svg.contains("495 samples in 5.0 s") && svg.contains("share of all samples"));
}

#[test]
fn no_samples_are_a_picture_that_says_so() {
    for svg in [
        flame(Vec::<(Vec<Frame<'_>>, u64)>::new(), &OPTIONS),
        flame(stacks(&[("main", 0)]), &OPTIONS),
        differential(Vec::<(Vec<Frame<'_>>, u64)>::new(), Vec::new(), &OPTIONS),
    ] {
        assert!(calls(&svg).is_empty());
        assert!(svg.contains(">no samples<"));
    }
}

#[test]
fn what_is_too_narrow_is_told_and_its_place_is_not_taken_for_the_callers_own() {
    let names: Vec<String> = (0..9_000).map(|number| format!("main;f{number}")).collect();
    let many: Vec<(&str, u64)> =
        names.iter().enumerate().map(|(at, name)| (name.as_str(), 1 + (at % 3) as u64)).collect();
    let svg = flame(stacks(&many), &OPTIONS);
    let found = calls(&svg);
    assert!(found.len() <= 5_002, "{}", found.len());
    let block = found.iter().find(|call| call.0.ends_with(" narrower calls]")).unwrap();
    let narrower = 9_001 - (found.len() - 1);
    assert_eq!(block.0, format!("[{narrower} narrower calls]"));
    assert!(svg.contains(&format!("{narrower} calls narrower than ")));
    assert!(svg.len() < 4 << 20, "{}", svg.len());
}

/// Names that are markup, that end what they stand in, that reorder or hide text, that look like
/// something else of the file, and that are none.
fn hostile() -> Vec<String> {
    let mut names: Vec<String> = [
        "a;b 7",
        "<script>document.title='owned'</script>",
        "]]><script>document.title='owned'</script>",
        "</title></svg><image href='https://example.org/x'/>",
        "\" onload=\"document.title='owned'",
        "&lt;&amp;&#x0;&nbsp;",
        "a\u{202e}gnp.exe",
        "\u{1b}[31mred\u{7}\0\n\t\r",
        "\u{fffe}\u{ffff}\u{feff}\u{200b}",
        "worker 1 11/22 b",
        "--",
        "-",
        "",
        " ",
        "\u{1f525}漢字",
        "javascript:alert(1)",
        "url(https://example.org/x)",
        "operator<< <char, std::char_traits<char> >",
    ]
    .map(str::to_owned)
    .into();
    names.push(format!("std::map<{}>::at", "std::pair<int, char>, ".repeat(40)));
    names.push("ä".repeat(5_000));
    names
}

/// A file that is well-formed, and in which nothing but what is ours is obeyed.
fn check(svg: &str) {
    let document = Document::parse(svg).unwrap();
    let elements: Vec<_> = document.descendants().filter(Node::is_element).collect();
    let count = |name: &str| {
        elements
            .iter()
            .filter(|element| element.tag_name().name().eq_ignore_ascii_case(name))
            .count()
    };
    assert_eq!((count("script"), count("style"), count("meta")), (1, 1, 1));
    for name in ["image", "use", "a", "iframe", "link", "img", "animate", "set", "object"] {
        assert_eq!(count(name), 0, "{name}");
    }
    for attribute in elements.iter().flat_map(roxmltree::Node::attributes) {
        let (name, value) = (attribute.name(), attribute.value());
        assert!(!name.starts_with("on") && name != "href" && name != "src", "{name}={value}");
        assert!(!value.contains("//") && !value.contains("javascript"), "{name}={value}");
    }
    let namespaces = ["http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"];
    for element in &elements {
        assert!(namespaces.contains(&element.tag_name().namespace().unwrap()));
    }
    let ours = [super::write::STYLE, super::write::SCRIPT].concat();
    assert!(!ours.contains("http://www.w3.org/1999/xhtml/") && !ours.contains("@import"));
    assert!(!ours.contains("url(h") && !ours.contains("fetch(") && !ours.contains("]]>"));
    let harmful = |character: char| {
        character.is_control() && character != '\n'
            || ('\u{202a}'..='\u{202e}').contains(&character)
    };
    assert!(!svg.contains(harmful));
}

#[test]
fn no_name_is_obeyed() {
    let names = hostile();
    let stacks: Vec<(Vec<Frame<'_>>, u64)> = names
        .iter()
        .map(|name| {
            let inner = Frame { name, module: Some(name), kind: Kind::Kernel };
            (vec![frame("main"), frame(name), inner], 5)
        })
        .collect();
    for name in &names {
        let options = Options { title: name, subtitle: name, unit: name, is_reversed: false };
        check(&flame(stacks.clone(), &options));
        check(&differential(stacks.clone(), stacks.clone(), &options));
    }
    let found = calls(&flame(stacks, &OPTIONS));
    for shown in ["a;b 7", "--", "-", "[no name]", "worker 1 11/22 b", "a\\u{202e}gnp.exe"] {
        assert!(found.iter().any(|call| call.0 == shown), "{shown}");
    }
}

#[test]
fn weights_beyond_what_can_be_added_are_survived() {
    let svg = flame(stacks(&[("a", u64::MAX), ("a;b", u64::MAX), ("c", 1)]), &OPTIONS);
    check(&svg);
    assert_eq!(calls(&svg)[0].0, "a");
}

#[test]
fn a_very_deep_stack_is_drawn_as_far_as_a_picture_goes() {
    let deep = vec!["f"; 100_000].join(";");
    assert_eq!(calls(&flame(stacks(&[(&deep, 1)]), &OPTIONS)).len(), 512);
}

proptest! {
    #[test]
    fn any_names_make_a_file_that_can_be_read(
        names in prop::collection::vec(any::<String>(), 1..6),
        weight in any::<u64>(),
    ) {
        let frames: Vec<Frame<'_>> = names.iter().map(|name| frame(name)).collect();
        check(&flame([(frames.clone(), weight)], &OPTIONS));
        check(&differential([(frames.clone(), 1)], [(frames, weight)], &REVERSED));
    }
}
