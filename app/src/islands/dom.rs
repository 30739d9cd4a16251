//! What the islands do to the page, with nothing but the browser's own calls.

use wasm_bindgen::prelude::*;
use web_sys::{Document, Element, Event, HtmlDivElement, HtmlElement, KeyboardEvent};

/// Room between the mark and the tooltip, in CSS pixels.
const DISTANCE_PX: i32 = 10;

fn document() -> Option<Document> {
    web_sys::window()?.document()
}

/// Shows what a mark says while it is pointed at or focused.
pub(super) fn follow_marks(tip: &HtmlDivElement) {
    let Ok(Some(figure)) = tip.closest("figure") else { return };
    name_marks(&figure);
    let tip = tip.clone();
    let within = figure.clone();
    let follow = Closure::<dyn Fn(Event)>::new(move |event: Event| {
        match event.type_().as_str() {
            "pointerover" | "focusin" => match mark_of(&event) {
                Some(mark) => show(&tip, &within, &mark),
                // The pointer may enter the tooltip itself without closing it.
                None if is_inside(&event, &tip) => {}
                None => tip.set_hidden(true),
            },
            "keydown" => on_key(&event, &tip),
            _ => tip.set_hidden(true),
        }
    });
    for kind in ["pointerover", "pointerleave", "focusin", "focusout", "keydown"] {
        let _ = figure.add_event_listener_with_callback(kind, follow.as_ref().unchecked_ref());
    }
    // The listeners live as long as the page.
    follow.forget();
}

/// Turns each mark's `<title>` into its accessible name: else the browser's own tooltip would
/// open beside ours.
fn name_marks(figure: &Element) {
    let Ok(marks) = figure.query_selector_all(".hit") else { return };
    for index in 0..marks.length() {
        let Some(mark) = marks.get(index).and_then(|node| node.dyn_into::<Element>().ok()) else {
            continue;
        };
        if let Ok(Some(title)) = mark.query_selector("title") {
            let _ = mark.set_attribute("aria-label", &title.text_content().unwrap_or_default());
            title.remove();
        }
    }
}

fn target(event: &Event) -> Option<Element> {
    event.target()?.dyn_into().ok()
}

fn mark_of(event: &Event) -> Option<Element> {
    target(event)?.closest(".hit").ok().flatten()
}

fn is_inside(event: &Event, tip: &HtmlElement) -> bool {
    target(event).is_some_and(|target| tip.contains(Some(&target)))
}

/// Escape closes; the arrow keys walk from mark to mark.
fn on_key(event: &Event, tip: &HtmlElement) {
    let Some(key) = event.dyn_ref::<KeyboardEvent>() else { return };
    let Some(mark) = mark_of(event) else { return };
    let next = match key.key().as_str() {
        "Escape" => {
            tip.set_hidden(true);
            None
        }
        "ArrowLeft" => mark.previous_element_sibling(),
        "ArrowRight" => mark.next_element_sibling(),
        _ => None,
    };
    // A mark is an SVG link: its focus() is that of any element, reached by an unchecked cast.
    if let Some(next) = next {
        event.prevent_default();
        let _ = next.unchecked_ref::<HtmlElement>().focus();
    }
}

fn show(tip: &HtmlDivElement, figure: &Element, mark: &Element) {
    let Some(document) = document() else { return };
    let said = mark.get_attribute("aria-label").unwrap_or_default();
    let series = mark.get_attribute("data-series").unwrap_or_default();
    tip.set_text_content(None);
    let mut swatches = series.chars();
    for (index, line) in said.lines().enumerate() {
        let (name, value) = line.rsplit_once(": ").unwrap_or((line, ""));
        let Ok(row) = document.create_element("p") else { return };
        let swatch = if index == 0 { None } else { swatches.next() };
        for (class, text) in [
            (swatch.map(|number| format!("swatch s{number}")), ""),
            (Some("name".to_owned()), name),
            (Some("value".to_owned()), value),
        ] {
            let (Some(class), Ok(part)) = (class, document.create_element("span")) else {
                continue;
            };
            part.set_class_name(&class);
            part.set_text_content(Some(text));
            let _ = row.append_child(&part);
        }
        let _ = tip.append_child(&row);
    }
    tip.set_hidden(false);
    place(tip, figure, mark);
}

/// Puts the tooltip beside the mark, on the side where there is more room. The CSSOM is used
/// because a style attribute is refused by the site's policy.
fn place(tip: &HtmlDivElement, figure: &Element, mark: &Element) {
    let (frame, bar) = (figure.get_bounding_client_rect(), mark.get_bounding_client_rect());
    let (left, right) = (pixels(frame.left()), pixels(frame.right()));
    let (bar_left, bar_right) = (pixels(bar.left()), pixels(bar.right()));
    let (side, other, offset) = if bar_left - left > right - bar_right {
        ("right", "left", right - bar_left + DISTANCE_PX)
    } else {
        ("left", "right", bar_right - left + DISTANCE_PX)
    };
    let style = HtmlElement::style(tip);
    let _ = style.remove_property(other);
    let _ = style.set_property(side, &format!("{offset}px"));
    let _ = style.set_property("top", &format!("{}px", pixels(bar.top()) - pixels(frame.top())));
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "whole pixels are enough, and printing fractions would double the bundle's formatting"
)]
const fn pixels(fractional: f64) -> i32 {
    fractional as i32
}

/// Shows the copy buttons and lets them copy.
pub(super) fn wake_copy_buttons() {
    let Some(buttons) = document().and_then(|page| page.query_selector_all("[data-copy]").ok())
    else {
        return;
    };
    let copy = Closure::<dyn Fn(Event)>::new(|event: Event| {
        let button = event.current_target().and_then(|button| button.dyn_into::<Element>().ok());
        if let Some(button) = button {
            copy_text(&button);
        }
    });
    for index in 0..buttons.length() {
        let Some(node) = buttons.get(index) else { continue };
        let _ = node.add_event_listener_with_callback("click", copy.as_ref().unchecked_ref());
        let _ = node.unchecked_ref::<Element>().remove_attribute("hidden");
    }
    // The listeners live as long as the page.
    copy.forget();
}

fn copy_text(button: &Element) {
    let target = button.get_attribute("data-copy").unwrap_or_default();
    let Some(source) = document().and_then(|page| page.get_element_by_id(&target)) else { return };
    let mut text = button.get_attribute("data-before").unwrap_or_default();
    text.push_str(&source.text_content().unwrap_or_default());
    let Some(window) = web_sys::window() else { return };
    // Outside a secure context the browser has no clipboard object at all.
    if !window.is_secure_context() {
        return select(&source, button);
    }
    let (happy, sad) = (button.clone(), button.clone());
    let copied = Closure::once(move |_: JsValue| happy.set_text_content(Some("Copied")));
    let denied = Closure::once(move |_: JsValue| select(&source, &sad));
    let _ = window.navigator().clipboard().write_text(&text).then2(&copied, &denied);
    // The browser calls one of them later; a click leaves a few bytes behind.
    copied.forget();
    denied.forget();
}

fn select(source: &Element, button: &Element) {
    let selection = web_sys::window().and_then(|window| window.get_selection().ok().flatten());
    let selected = selection.is_some_and(|found| found.select_all_children(source).is_ok());
    let words = if selected { "Selected: press Ctrl+C" } else { "Select it and press Ctrl+C" };
    button.set_text_content(Some(words));
}
