//! The file itself.

use super::{
    Frame, Kind, Options, colour,
    tree::{AFTER, BEFORE, Drawing, Drawn, Node, Tree},
};
use protocol::host_text;
use std::{borrow::Cow, fmt::Write as _};

pub(super) const STYLE: &str = include_str!("style.css");

pub(super) const SCRIPT: &str = include_str!("script.js");

/// Height of a row, in pixels.
const ROW: usize = 18;

/// Height of the heading where no script measures it.
const HEAD: usize = 190;

/// Bytes of a name. Those of templates have thousands.
const NAME_BYTES: usize = 600;

/// A change that is told from none.
const SMALLEST_CHANGE: f64 = 0.000_5;

/// Draws a tree.
pub(super) fn picture(tree: &Tree<'_>, options: &Options<'_>) -> String {
    let drawing = tree.drawing();
    let mut svg = String::with_capacity(drawing.calls.len() * 300 + 16_000);
    let height = HEAD + drawing.rows.max(1) * ROW + 12;
    let title = text(options.title, NAME_BYTES);
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        svg,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%\" height=\"{height}\">\n\
         <title>{title}</title>\n<style><![CDATA[\n{STYLE}]]></style>\n\
         <defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#fff\"/>\
         <rect width=\"2\" height=\"6\" fill=\"#bbb\"/></pattern>\
         <pattern id=\"dots\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">\
         <rect width=\"5\" height=\"5\" fill=\"#c4e8ad\"/>\
         <circle cx=\"2\" cy=\"2\" r=\"0.8\" fill=\"#98c97c\"/></pattern></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    head(&mut svg, tree, &drawing, options, &title);
    let _ = writeln!(
        svg,
        "<svg id=\"graph\" y=\"{HEAD}\" width=\"100%\" height=\"{}\">",
        height - HEAD
    );
    let largest = largest_change(&drawing);
    for drawn in &drawing.calls {
        call(&mut svg, tree, drawn, options, largest);
    }
    if drawing.calls.is_empty() {
        svg.push_str("<text x=\"12\" y=\"14\">no samples</text>\n");
    }
    svg.push_str("</svg>\n");
    svg.push_str(
        "<foreignObject id=\"said\" x=\"0\" y=\"0\" width=\"100%\" height=\"1\">\
         <div xmlns=\"http://www.w3.org/1999/xhtml\" id=\"words\" aria-live=\"polite\"></div>\
         </foreignObject>\n",
    );
    let _ = writeln!(svg, "<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>");
    svg
}

/// The heading: what it is of, what can be done with it, and what its colours mean.
fn head(svg: &mut String, tree: &Tree<'_>, drawing: &Drawing, options: &Options<'_>, title: &str) {
    let subtitle = text(options.subtitle, 4 * NAME_BYTES);
    let _ = writeln!(
        svg,
        "<switch><foreignObject id=\"head\" x=\"0\" y=\"0\" width=\"100%\" height=\"{HEAD}\">\
         <div xmlns=\"http://www.w3.org/1999/xhtml\" id=\"top\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <h1>{title}</h1><p>{subtitle}</p><p>{}</p>\
         <div id=\"tools\"><input id=\"find\" type=\"search\" placeholder=\"search calls\" \
         aria-label=\"search calls\" autocomplete=\"off\" spellcheck=\"false\"/>\
         <button id=\"reset\" type=\"button\">reset</button><span id=\"found\"></span></div>\
         <p id=\"key\">{}</p><p id=\"keys\">click or Enter: zoom; arrows: move; /: search; \
         Esc: back</p></div></foreignObject>\
         <text x=\"12\" y=\"24\">{title}</text></switch>",
        text(&how_to_read(drawing, tree, options), NAME_BYTES),
        key(tree),
    );
}

fn how_to_read(drawing: &Drawing, tree: &Tree<'_>, options: &Options<'_>) -> String {
    let mut words = String::from(match options.is_reversed {
        false => "Top: who calls; below: whom it calls.",
        true => "Top: where stacks end; below: who called that.",
    });
    words.push_str(match tree.is_difference {
        false => " Width: share of all ",
        true => " Width: mean of both shares of all ",
    });
    words.push_str(options.unit);
    words.push('.');
    if drawing.narrower > 0 {
        let _ = write!(
            words,
            " {} calls narrower than {} are hatched or not drawn.",
            drawing.narrower,
            percent(drawing.narrowest)
        );
    }
    words
}

/// What the colours mean, and for kinds of code how much ends in each.
fn key(tree: &Tree<'_>) -> String {
    if tree.is_difference {
        return "<span class=\"key up\">▲ grew</span> <span class=\"key down\">▼ shrank</span>"
            .to_owned();
    }
    const KINDS: [Kind; 6] =
        [Kind::User, Kind::Inlined, Kind::Kernel, Kind::Jit, Kind::Unnamed, Kind::Cut];
    let mut key = String::new();
    for kind in KINDS {
        let of_kind: Vec<&Node<'_>> =
            tree.nodes().iter().filter(|node| node.frame.kind == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        let own = of_kind.iter().map(|node| node.own).fold([0; 2], |sum: [u64; 2], own| {
            [sum[0].saturating_add(own[0]), sum[1].saturating_add(own[1])]
        });
        let [part, _] = tree.parts(own);
        let (class, word) = (colour::class(kind), colour::word(kind));
        let _ = write!(key, "<span class=\"key {class}\">{word} {}</span> ", percent(part));
    }
    key
}

fn largest_change(drawing: &Drawing) -> f64 {
    drawing
        .calls
        .iter()
        .map(|drawn| (drawn.parts[AFTER] - drawn.parts[BEFORE]).abs())
        .fold(0.0, f64::max)
}

/// One call.
fn call(svg: &mut String, tree: &Tree<'_>, drawn: &Drawn, options: &Options<'_>, largest: f64) {
    const WIDE_ENOUGH_FOR_TEXT: f64 = 0.02;
    let Drawn { node, calls, depth, left, width, parts } = drawn;
    let node = node.and_then(|index| tree.node(index));
    let many = format!("[{calls} narrower calls]");
    let none = Frame { name: &many, module: None, kind: Kind::Cut };
    let frame = node.map_or(none, |node| node.frame);
    let name = text(if frame.name.is_empty() { "[no name]" } else { frame.name }, NAME_BYTES);
    let change = parts[AFTER] - parts[BEFORE];
    let (mut class, mut fill, mut sign) = (colour::class(frame.kind), String::new(), "");
    if tree.is_difference {
        (class, sign) = match change {
            change if change > SMALLEST_CHANGE => ("up", "▲ "),
            change if change < -SMALLEST_CHANGE => ("down", "▼ "),
            _ => ("same", ""),
        };
        fill = format!(" fill=\"{}\"", colour::of_change(change, largest));
    }
    let shade = if fill.is_empty() && node.is_some() { colour::shade(frame.name) } else { 0 };
    let _ = write!(
        svg,
        "<svg class=\"f {class} s{shade}\" x=\"{:.6}%\" y=\"{}\" width=\"{:.6}%\" \
         height=\"{ROW}\"><title>{name}\n{}\n{}</title><rect width=\"100%\" height=\"17\"{fill}/>",
        left * 100.0,
        depth * ROW,
        width * 100.0,
        about(&frame),
        numbers(tree, node, *parts, options),
    );
    if *width >= WIDE_ENOUGH_FOR_TEXT {
        let _ = write!(svg, "<text x=\"3\" y=\"13\">{sign}{name}</text>");
    }
    svg.push_str("</svg>\n");
}

fn about(frame: &Frame<'_>) -> String {
    let module = frame.module.map(|module| format!("{}, ", text(module, NAME_BYTES)));
    format!("{}{}", module.unwrap_or_default(), colour::word(frame.kind))
}

/// What a call weighs.
fn numbers(
    tree: &Tree<'_>,
    node: Option<&Node<'_>>,
    parts: [f64; 2],
    options: &Options<'_>,
) -> String {
    let unit = text(options.unit, NAME_BYTES);
    let own = tree.parts(node.map_or([0; 2], |node| node.own));
    if tree.is_difference {
        let points = |parts: [f64; 2]| {
            let change = (parts[AFTER] - parts[BEFORE]) * 100.0;
            format!("{} → {} ({change:+.1})", percent(parts[BEFORE]), percent(parts[AFTER]))
        };
        return format!("{} of {unit}, itself {}", points(parts), points(own));
    }
    let total = match node {
        Some(node) => format!(" ({} of {})", node.total[AFTER], tree.weight(AFTER)),
        None => String::new(),
    };
    format!("{} of {unit}{total}, itself {}", percent(parts[AFTER]), percent(own[AFTER]))
}

/// A share; a small one with more digits, so that it is not 0.
fn percent(part: f64) -> String {
    let percent = part * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        percent if percent < 0.1 => format!("{percent:.3} %"),
        percent => format!("{percent:.1} %"),
    }
}

/// Text for XML: no markup, nothing that a viewer obeys, and no more than so many bytes.
fn text(raw: &str, most: usize) -> String {
    let shown = host_text::printable(raw);
    let cut: Cow<'_, str> = match shown.get(..shown.floor_char_boundary(most)) {
        Some(start) if start.len() < shown.len() => Cow::Owned(format!("{start}…")),
        _ => shown,
    };
    let mut text = String::with_capacity(cut.len());
    for character in cut.chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            // XML has no way to say these.
            '\u{fffe}' | '\u{ffff}' => text.push('\u{fffd}'),
            character => text.push(character),
        }
    }
    text
}
