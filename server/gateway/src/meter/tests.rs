use domain::usage::Usage;

use super::*;

const OPENAI: &[u8] = b"data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"H\xc3\xbc\"},\"finish_reason\":null}],\"usage\":null}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":2,\"total_tokens\":13}}\n\ndata: [DONE]\n\n";
const USAGE_FRAME: &[u8] = b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":2,\"total_tokens\":13}}\n\n";
const ANTHROPIC: &[u8] = b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"c\",\"usage\":{\"input_tokens\":27,\"cache_read_input_tokens\":5,\"output_tokens\":1}}}\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":310}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
const GEMINI: &[u8] = b"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"He\"}]},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":20,\"totalTokenCount\":208,\"thoughtsTokenCount\":188}}\r\n\r\ndata: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"llo\"}]},\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":20,\"candidatesTokenCount\":7,\"thoughtsTokenCount\":188,\"totalTokenCount\":215}}\r\n\r\n";
const ARRAY: &[u8] = b"[{\n  \"candidates\": [{\"content\": {\"parts\": [{\"text\": \"H]}{\"}]}}],\n  \"usageMetadata\": {\"promptTokenCount\": 20, \"totalTokenCount\": 20}\n}\n,\r\n{\n  \"candidates\": [{\"finishReason\": \"STOP\"}],\n  \"usageMetadata\": {\"promptTokenCount\": 20, \"candidatesTokenCount\": 7, \"totalTokenCount\": 27}\n}\n]\n";

struct Run {
    sent: Vec<u8>,
    meter: Meter,
}

fn run(dialect: Dialect, sse: bool, hide: bool, chunks: &[&[u8]]) -> Run {
    let mut meter = Meter::new(dialect, sse, hide);
    let mut out = Vec::new();
    for chunk in chunks {
        meter.push(Bytes::copy_from_slice(chunk), &mut out);
    }
    meter.finish(&mut out);
    Run { sent: out.concat(), meter }
}

fn without(whole: &[u8], part: &[u8]) -> Vec<u8> {
    let at = whole.windows(part.len()).position(|window| window == part).unwrap();
    [&whole[..at], &whole[at + part.len()..]].concat()
}

/// Each recorded stream with its dialect, its form, and what it used.
fn recorded() -> Vec<(Dialect, bool, &'static [u8], Usage)> {
    let tokens = |input, output| Usage { input, output, ..Usage::default() };
    vec![
        (Dialect::Openai, true, OPENAI, tokens(11, 2)),
        (Dialect::Anthropic, true, ANTHROPIC, Usage { cached_input: 5, ..tokens(27, 310) }),
        (Dialect::Gemini, true, GEMINI, Usage { reasoning: 188, ..tokens(20, 7) }),
        (Dialect::Gemini, false, ARRAY, tokens(20, 7)),
    ]
}

#[test]
fn a_cut_at_every_byte_gives_the_same_usage_and_the_same_bytes() {
    for (dialect, sse, stream, usage) in recorded() {
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        let mut cuts: Vec<Vec<&[u8]>> =
            (0..=stream.len()).map(|at| vec![&stream[..at], &stream[at..]]).collect();
        cuts.push(bytes);
        for chunks in cuts {
            let run = run(dialect, sse, false, &chunks);
            let at = chunks[0].len();
            assert_eq!(run.sent, stream, "{dialect:?} cut at {at}");
            assert_eq!(run.meter.tally.reported().unwrap().usage, usage, "{dialect:?} cut at {at}");
            assert!(run.meter.terminal && run.meter.failed.is_none(), "{dialect:?} cut at {at}");
        }
    }
}

#[test]
fn usage_that_only_weir_asked_for_is_hidden_at_every_cut_and_nothing_else_is() {
    let expected = without(OPENAI, USAGE_FRAME);
    for at in 0..=OPENAI.len() {
        let run = run(Dialect::Openai, true, true, &[&OPENAI[..at], &OPENAI[at..]]);
        assert_eq!(run.sent, expected, "cut at {at}");
        assert_eq!(run.meter.tally.reported().unwrap().usage.total(), 13);
    }
}

#[test]
fn a_last_frame_without_its_blank_line_still_carries_the_usage() {
    let stream = &GEMINI[..GEMINI.len() - 4];
    let run = run(Dialect::Gemini, true, false, &[stream]);
    assert_eq!(run.sent, stream);
    assert_eq!(run.meter.tally.reported().unwrap().usage.total(), 215);
    assert!(run.meter.failed.is_none());
}

#[test]
fn a_stream_that_breaks_off_anywhere_is_a_failure_and_is_told_in_the_dialect() {
    for (dialect, sse, stream, _) in recorded() {
        for at in 0..stream.len() - 6 {
            let run = run(dialect, sse, false, &[&stream[..at]]);
            if run.meter.terminal {
                continue;
            }
            assert!(run.meter.failed.is_some(), "{dialect:?} broken at {at}");
            assert!(stream.starts_with(&run.sent), "{dialect:?} broken at {at}");
            if let Some(epitaph) = run.meter.epitaph(RequestId::from_parts(1, 2)) {
                let text = String::from_utf8(epitaph.to_vec()).unwrap();
                assert!(text.contains("error") && !text.contains("[DONE]"), "{text}");
                assert!(!sse || text.replace('\r', "").ends_with("\n\n"), "{text}");
            }
        }
    }
}

#[test]
fn a_broken_array_stays_an_array_where_it_can() {
    let first_element = ARRAY.windows(4).position(|w| w == b"\n}\n,").unwrap() + 2;
    let run = run(Dialect::Gemini, false, false, &[&ARRAY[..first_element]]);
    let epitaph = run.meter.epitaph(RequestId::from_parts(1, 2)).unwrap();
    let whole = [&run.sent[..], &epitaph].concat();
    let parsed: Vec<serde_json::Value> = serde_json::from_slice(&whole).unwrap();
    assert_eq!(parsed[1]["error"]["status"], "UNAVAILABLE");
    let inside = super::tests::run(Dialect::Gemini, false, false, &[&ARRAY[..10]]);
    assert!(inside.meter.epitaph(RequestId::from_parts(1, 2)).is_none());
}

#[test]
fn an_array_that_lacks_only_its_bracket_is_closed_and_one_cut_later_is_not() {
    let last_element = ARRAY.windows(3).rposition(|w| w == b"\n}\n").unwrap() + 2;
    let whole = run(Dialect::Gemini, false, false, &[&ARRAY[..last_element]]);
    let parsed: Vec<serde_json::Value> = serde_json::from_slice(&whole.sent).unwrap();
    assert_eq!((parsed.len(), whole.meter.failed), (2, None));
    let more = [&ARRAY[..last_element], b",\n{\"candidates\": [{"].concat();
    let cut = run(Dialect::Gemini, false, false, &[&more]);
    assert!(cut.meter.failed.is_some());
}

#[test]
fn the_providers_own_error_frame_passes_and_no_second_one_follows() {
    let stream = b"data: {\"error\":{\"message\":\"overloaded\"}}\n\n";
    let run = run(Dialect::Openai, true, true, &[stream]);
    assert_eq!(run.sent, stream);
    assert_eq!(run.meter.failed.as_deref(), Some("overloaded"));
    assert_eq!(run.meter.epitaph(RequestId::from_parts(1, 2)), Some(Bytes::new()));
}

#[test]
fn garbage_makes_the_call_a_failure_and_still_passes() {
    let stream = b"data: {\"choices\":[{\"delta\":{\"content\":\"abcd\"}}]}\n\ndata: {not json\n\n";
    let run = run(Dialect::Openai, true, true, &[stream]);
    assert_eq!(run.sent, stream);
    assert!(run.meter.failed.is_some());
    assert_eq!((run.meter.tally.reported(), run.meter.tally.prose_bytes()), (None, 4));
}
