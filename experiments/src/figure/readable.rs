//! For tests of figures: all texts can be read.

use resvg::usvg::{Group, Node, Rect, Tree};

use super::font;

/// Checks that no text of the figure lies on another one or beyond the paper, and returns how many there are.
#[track_caller]
pub(super) fn assert_readable(svg: &str) -> usize {
    let tree = Tree::from_str(svg, &font::options()).unwrap();
    let mut boxes = Vec::new();
    collect(tree.root(), &mut boxes);
    for (idx, a) in boxes.iter().enumerate() {
        let is_on_paper =
            a.left() >= 0.0 && a.top() >= 0.0 && a.right() <= tree.size().width() && a.bottom() <= tree.size().height();
        assert!(is_on_paper, "{a:?} is beyond {:?}", tree.size());
        for b in &boxes[..idx] {
            let apart =
                a.right() <= b.left() || b.right() <= a.left() || a.bottom() <= b.top() || b.bottom() <= a.top();
            assert!(apart, "{a:?} and {b:?}");
        }
    }
    boxes.len()
}

fn collect(group: &Group, boxes: &mut Vec<Rect>) {
    for node in group.children() {
        match node {
            // The ink of the letters: layout boxes of neighbouring lines may touch.
            Node::Text(text) => boxes.push(text.flattened().abs_bounding_box()),
            Node::Group(inner) => collect(inner, boxes),
            _ => {}
        }
    }
}
