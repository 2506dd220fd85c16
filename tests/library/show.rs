//! Figures from outside, and the sinks: one is chosen once per process, so each case runs in a
//! process of its own.

use epsilab::show::{
    Chart, LiveDisplay, MimeBundle, Panel, RunSnapshot, Series, Table, display, progress,
    run_bundle, run_chart, with_capture,
};
use std::process::Output;
use std::time::{Duration, Instant};

use crate::support::process;

/// A private run like those on MNIST: noisy loss, accuracy every 29 steps, epsilon growing.
fn run(steps: usize, total: usize) -> RunSnapshot {
    let noise = |i: usize| ((i * 7919 % 1009) as f64 / 1009.0 - 0.5) * 0.3;
    let at = |i: usize| i as f64 / total as f64;
    RunSnapshot {
        loss: (1..=steps)
            .map(|i| (i as f64, 2.3 * (-12.0 * at(i)).exp() + 0.3 + noise(i)))
            .collect(),
        test_accuracy: (29..=steps)
            .step_by(29)
            .map(|i| (i as f64, 0.976 - 0.87 * (-20.0 * at(i)).exp()))
            .collect(),
        epsilon: (1..=steps).map(|i| (i as f64, 0.5 + 2.48 * at(i).sqrt())).collect(),
        target_epsilon: Some(3.0),
        total_steps: total as f64,
        private: true,
        ..RunSnapshot::default()
    }
}

/// Checks that a document is well formed and holds nothing that GitHub strips or that loads
/// anything; gives the names of its elements.
fn check_svg(svg: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut names = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        check_entities(&rest[..start]);
        let end = start + rest[start..].find('>').expect("a tag that ends");
        let tag = &rest[start + 1..end];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closing tags match");
        } else {
            let name = tag.split([' ', '/']).next().expect("a name");
            let inner = tag[name.len()..].trim_end_matches('/');
            for (i, part) in inner.split('"').enumerate() {
                if i % 2 == 0 {
                    let key = part.trim().trim_end_matches('=');
                    assert!(!key.contains("href") && !key.starts_with("on"), "attribute {key}");
                } else {
                    check_entities(part);
                    assert!(!part.contains("url("), "no reference: {part}");
                }
            }
            assert_eq!(inner.matches('"').count() % 2, 0, "quotes match in {tag}");
            if !tag.ends_with('/') {
                open.push(name);
            }
            names.push(name.to_string());
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "elements left open: {open:?}");
    assert!(!svg.contains(|c: char| c.is_control() && c != '\n'), "control characters");
    let allowed = ["svg", "rect", "polyline", "polygon", "circle", "text"];
    assert!(names.iter().all(|name| allowed.contains(&name.as_str())), "{names:?}");
    names
}

fn check_entities(text: &str) {
    for part in text.split('&').skip(1) {
        let entity = part.split(';').next().unwrap_or("");
        assert!(["amp", "lt", "gt", "quot", "apos", "#39"].contains(&entity), "&{entity}");
    }
}

#[test]
fn a_run_figure_is_plain_svg_with_its_titles_and_values() {
    let svg = run_chart("DP-SGD on MNIST", &run(879, 879)).svg();
    let names = check_svg(&svg);
    assert_eq!(names[0], "svg");
    for text in [
        "DP-SGD on MNIST",
        "training loss",
        "test accuracy",
        "epsilon spent",
        "target 3",
        "not covered by epsilon",
        "97.6 %",
        "2.98",
        "step",
        "800",
        "DejaVu Sans, Verdana, sans-serif",
    ] {
        assert!(svg.contains(text), "{text} is missing");
    }
}

#[test]
fn titles_can_hold_anything_and_the_svg_stays_whole() {
    let nasty = "<script>alert('x')</script> & \"quotes\" ]]> \u{0}\u{1b}[31m\n\u{ffff} é 数 🙂";
    let chart = Chart::new(nasty).note(nasty).x_label(nasty).panel(
        Panel::new(nasty)
            .badge(nasty)
            .reference(1.0, nasty)
            .series(Series::line(nasty, [(0.0, 1.0)]))
            .series(Series::line(nasty, [])),
    );
    check_svg(&chart.svg());
    assert!(!chart.png().is_empty());
    assert!(!chart.text().contains('\u{1b}'));
}

#[test]
fn odd_numbers_draw_without_trouble() {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 1e300, -1e300, 0.0];
    let tiny = [f64::MIN_POSITIVE, 5e-324, 1e-300, 1.0, 1.0 + f64::EPSILON];
    for values in [&odd[..], &tiny[..], &odd[..1], &odd[5..7], &tiny[3..], &[]] {
        let points: Vec<_> = values.iter().map(|&y| (y, y)).collect();
        let up: Vec<_> = values.iter().enumerate().map(|(x, &y)| (x as f64, y)).collect();
        for panel in [Panel::new("p"), Panel::new("p").log(), Panel::new("p").percent()] {
            let panel = panel
                .series(Series::line("a", points.clone()).approximate())
                .series(Series::line("b", up.clone()))
                .reference(f64::NAN, "nowhere")
                .reference(1e300, "far");
            for chart in [
                Chart::new("t").panel(panel.clone()),
                Chart::new("t").panel(panel.clone().y_range(f64::NAN, 1.0)).x_range(5.0, 5.0),
                Chart::new("t").panel(panel.clone().y_range(-1.0, 1.0)).x_range(0.0, 3.0),
            ] {
                check_svg(&chart.svg());
                assert!(!chart.svg().contains("NaN") && !chart.svg().contains("inf"));
                assert!(!chart.png().is_empty() && !chart.text().is_empty());
            }
        }
    }
}

#[test]
fn empty_series_have_a_note_and_a_single_point_is_drawn() {
    let empty = run_chart("r", &run(0, 879));
    assert_eq!(empty.svg().matches("no data yet").count(), 3 + 3, "in the plots and in the label");
    let circles = |points: Vec<(f64, f64)>| {
        let chart = Chart::new("").panel(Panel::new("p").series(Series::line("s", points)));
        check_svg(&chart.svg()).iter().filter(|name| *name == "circle").count()
    };
    assert_eq!(circles(vec![]), 0);
    assert!(circles(vec![(3.0, 2.0)]) > 0);
    // Between two gaps: drawn as a dot beside the mark of the newest point.
    let alone = vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 5.0), (3.0, f64::NAN), (4.0, 1.0)];
    assert!(circles(alone) >= 4);
}

#[test]
fn the_same_chart_gives_the_same_bytes_and_a_long_run_a_small_file() {
    let chart = run_chart("long", &run(50_000, 50_000));
    let (svg, png) = (chart.svg(), chart.png());
    assert_eq!(svg, run_chart("long", &run(50_000, 50_000)).svg());
    assert_eq!(png, run_chart("long", &run(50_000, 50_000)).png());
    assert!(svg.len() < 40_000, "{} bytes of SVG", svg.len());
    assert!(png.len() < 150_000, "{} bytes of PNG", png.len());
    let most = svg.split("points=\"").skip(1).map(|p| p.split('"').next().unwrap_or(""));
    assert!(most.map(|p| p.split_whitespace().count()).all(|n| n <= 410));
}

#[test]
fn the_png_has_twice_the_size_of_the_svg_and_shows_the_lines() {
    let chart = run_chart("r", &run(300, 879));
    let bundle = chart.bundle();
    let svg = bundle.svg.clone().expect("an SVG");
    let png = bundle.png.clone().expect("a PNG");
    assert!(png.len() < 60_000, "{} bytes", png.len());
    let mut decoder = png::Decoder::new(std::io::Cursor::new(png));
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut pixels).expect("an image");
    assert!(svg.contains(&format!("width=\"{}\" height=\"{}\"", info.width / 2, info.height / 2)));
    let size = &bundle.metadata()["image/png"];
    assert_eq!(size["width"], info.width / 2);
    assert_eq!(size["height"], info.height / 2);
    let share = |wanted: [u8; 3]| {
        let hits = pixels.chunks(3).filter(|p| *p == wanted).count();
        hits as f64 / (info.width * info.height) as f64
    };
    assert!((0.7..0.99).contains(&share([255, 255, 255])), "card: {}", share([255, 255, 255]));
    for colour in [[0xd5, 0x5e, 0x00], [0x00, 0x72, 0xb2], [0x00, 0x9e, 0x73], [0x1f, 0x23, 0x28]] {
        assert!(share(colour) > 1e-4, "{colour:?}: {}", share(colour));
    }
    let edge = [0xd0, 0xd7, 0xde];
    let at = |x: u32, y: u32| &pixels[3 * (y * info.width + x) as usize..][..3];
    assert_eq!([at(0, 0), at(info.width - 1, info.height - 1)], [edge, edge]);
}

#[test]
fn the_text_form_has_the_last_values() {
    let text = run_bundle("DP-SGD on MNIST", &run(879, 879), false).text;
    let lines: Vec<_> = text.lines().collect();
    assert!(
        lines[0].starts_with("step 879 of 879  loss ") && lines[0].ends_with("epsilon 2.98 of 3")
    );
    assert_eq!(lines[1], "DP-SGD on MNIST");
    assert_eq!(lines[2], "step 879 of 879");
    assert!(lines[3].contains("training loss") && lines[3].contains("[not covered by epsilon]"));
    assert!(lines[4].contains("test accuracy") && lines[4].ends_with("97.6 %"));
    assert!(lines[5].contains("epsilon spent") && lines[5].ends_with("2.98  target 3"));
}

#[test]
fn every_figure_shows_in_a_capture() {
    let chart = run_chart("r", &run(5, 10));
    let table = Table::new(["a", "b"]).row(["1", "2"]);
    let shown = with_capture(|| {
        chart.show();
        table.show();
    });
    assert_eq!(shown, [chart.bundle(), table.bundle()]);
    assert!(shown[1].html.is_some() && shown[0].svg.is_some());
}

/// What the processes of these tests show. The user's process has no role and shows nothing.
#[test]
fn sinks() {
    match process::role().as_deref() {
        None => {}
        Some("everything") => {
            display(&MimeBundle::text("first\nsecond line").with_svg("<svg/>"));
            progress("working");
            let took = show_live_frames(std::env::var_os("EPSILAB_DISPLAY").is_some());
            display(&MimeBundle::text(format!("last, after {} ms", took.as_millis())));
        }
        Some("three") => {
            for text in ["one", "two", "three"] {
                display(&MimeBundle::text(text));
            }
        }
        role => panic!("unknown role {role:?}"),
    }
}

/// Offers frames to a live display for a second, or until some are shown after the first. Returns
/// the time from the first frame on.
fn show_live_frames(until_some_follow: bool) -> Duration {
    let live = LiveDisplay::new();
    let start = Instant::now();
    let (mut frame, mut shown) = (0, 0);
    while start.elapsed() < Duration::from_secs(1) || (until_some_follow && shown < 3) {
        shown += u32::from(live.is_due());
        live.update(&MimeBundle::text(format!("frame {frame}\ndetails")));
        frame += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = start.elapsed();
    live.finish(&MimeBundle::text("the end\nall details").with_svg("<svg>end</svg>"));
    took
}

fn in_child(role: &str, settings: &[(&str, &str)]) -> Output {
    let sinks = concat!(module_path!(), "::sinks").split_once("::").expect("a module").1;
    process::run(process::command(sinks, role).envs(settings.iter().copied()))
}

/// What the process has printed, from the first words on that it has shown.
fn shown(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, rest) = text.split_once("running 1 test\n").expect("a test program");
    // The harness prints "test show::sinks ... " without a newline before the first line of ours.
    rest.trim_start_matches("test show::sinks ... ").to_string()
}

/// The time that a process says it has offered frames.
fn offered(text: &str) -> Duration {
    let number = text.split("last, after ").nth(1).and_then(|rest| rest.split(' ').next());
    Duration::from_millis(number.expect("a time").parse().expect("a number"))
}

/// Checks that a list of lines shows frame 0 and at most one more every two seconds.
fn check_frames(between: &str, offered: Duration) {
    let frames: Vec<&str> = between.lines().collect();
    assert_eq!(frames[0], "frame 0");
    assert!(frames.iter().all(|line| line.starts_with("frame ")), "{between}");
    assert!(frames.len() as u64 <= 1 + offered.as_secs() / 2, "{between} in {offered:?}");
}

#[test]
fn a_terminal_gets_lines_of_text_and_few_of_them() {
    let all = shown(&in_child("everything", &[]));
    let rest = all.strip_prefix("first\nsecond line\nworking\n").expect(&all);
    let (frames, rest) = rest.split_once("the end\nall details\nlast, after ").expect(&all);
    check_frames(frames, offered(&all));
    assert!(rest.contains(" ms\n") && !all.contains("svg"), "{all}");
}

#[test]
fn stock_evcxr_gets_content_blocks_and_text_lines_while_it_runs() {
    let all = shown(&in_child("everything", &[("EVCXR_IS_RUNTIME", "1")]));
    let end = "EVCXR_BEGIN_CONTENT image/svg+xml\n<svg>end</svg>\nEVCXR_END_CONTENT";
    let (_, rest) = all.split_once("working\n").expect(&all);
    let (frames, _) = rest.split_once("EVCXR_BEGIN_CONTENT text/plain\nthe end").expect(&all);
    check_frames(frames, offered(&all));
    assert!(all.contains(end), "{all}");
    assert_eq!(
        all.matches("EVCXR_BEGIN_CONTENT").count(),
        all.matches("EVCXR_END_CONTENT").count()
    );
}

#[cfg(unix)]
mod side_channel {
    use super::*;
    use serde_json::Value;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::thread::{JoinHandle, spawn};

    /// A kernel's end of the channel: takes every message and answers as `answer` says for its
    /// number; hangs up where that is nothing.
    fn kernel(
        answer: fn(usize) -> Option<&'static str>,
    ) -> (tempfile::TempDir, String, JoinHandle<Vec<Value>>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("display").to_string_lossy().into_owned();
        let listener = UnixListener::bind(&path).expect("a socket");
        let thread = spawn(move || {
            let (stream, _) = listener.accept().expect("a connection");
            let mut writer = stream.try_clone().expect("a second handle");
            let mut got = Vec::new();
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { break };
                got.push(serde_json::from_str(&line).expect("one JSON object per line"));
                let Some(text) = answer(got.len()) else { break };
                if writer.write_all(text.as_bytes()).is_err() {
                    break;
                }
            }
            got
        });
        (folder, path, thread)
    }

    #[test]
    fn messages_come_in_order_and_live_frames_are_limited_but_never_the_last() {
        let (_folder, path, thread) = kernel(|_| Some("ok\n"));
        let output = in_child("everything", &[("EPSILAB_DISPLAY", &path)]);
        let printed = shown(&output);
        assert!(!printed.contains("frame") && !printed.contains("working"), "{printed}");
        let got = thread.join().expect("the kernel's thread");
        assert_eq!(got[0]["kind"], "display");
        assert_eq!(got[0]["id"], Value::Null);
        assert_eq!(got[0]["update"], false);
        assert_eq!(got[0]["data"]["text/plain"], "first\nsecond line");
        assert_eq!(got[0]["data"]["image/svg+xml"], "<svg/>");
        assert_eq!(
            got[1],
            serde_json::json!({"kind": "stream", "name": "stdout", "text": "working\n"})
        );

        let (last, live) = got[2..].split_last().expect("live frames");
        let last = last["data"]["text/plain"].as_str().expect("a text");
        assert!(last.starts_with("last, after "), "{last}");
        assert_eq!(live[0]["update"], false);
        assert_eq!(live[0]["data"]["text/plain"], "frame 0\ndetails");
        let id = live[0]["id"].as_str().expect("an id");
        assert!(live.iter().all(|message| message["id"] == id));
        assert!(live[1..].iter().all(|message| message["update"] == true));
        assert_eq!(live[live.len() - 1]["data"]["text/plain"], "the end\nall details");
        // The first frame, at most 8 in each second after it, and the last.
        let most = 2 + offered(last).as_millis() / 125;
        assert!((4..=most).contains(&(live.len() as u128)), "{} of {most} frames", live.len());
        let numbers: Vec<u32> = live[..live.len() - 1].iter().map(frame_number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }

    /// The number of a frame of [`show_live_frames`].
    fn frame_number(message: &Value) -> u32 {
        let text = message["data"]["text/plain"].as_str().expect("a text");
        let number = text.strip_prefix("frame ").and_then(|rest| rest.lines().next());
        number.expect("a frame").parse().expect("a number")
    }

    #[test]
    fn a_socket_that_is_not_there_falls_back_to_text() {
        let output = in_child("three", &[("EPSILAB_DISPLAY", "/nowhere/epsilab/display")]);
        assert!(shown(&output).contains("one\ntwo\nthree"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("shown as text"), "{stderr}");
    }

    #[test]
    fn figures_after_a_lost_connection_are_printed() {
        let (_folder, path, thread) = kernel(|n| (n < 2).then_some("ok\n"));
        let output = in_child("three", &[("EPSILAB_DISPLAY", &path)]);
        assert_eq!(thread.join().expect("the kernel's thread").len(), 2);
        // The second was taken but never acknowledged, so it is shown again.
        assert!(shown(&output).contains("two\nthree"));
    }

    #[test]
    fn a_reply_other_than_ok_counts_as_a_broken_connection() {
        let (_folder, path, thread) = kernel(|_| Some("what?\n"));
        let output = in_child("three", &[("EPSILAB_DISPLAY", &path)]);
        assert_eq!(thread.join().expect("the kernel's thread").len(), 1);
        assert!(shown(&output).contains("one\ntwo\nthree"));
    }

    #[test]
    fn a_silent_kernel_is_waited_for_three_times_and_then_left() {
        let (_folder, path, thread) = kernel(|_| Some(""));
        let start = Instant::now();
        let output = in_child("three", &[("EPSILAB_DISPLAY", &path)]);
        // Three times two seconds. A busy machine only adds to them.
        assert!(start.elapsed() >= Duration::from_secs(5), "{:?}", start.elapsed());
        assert_eq!(thread.join().expect("the kernel's thread").len(), 3);
        let all = shown(&output);
        assert!(all.contains("three") && !all.contains("one"), "{all}");
    }
}
