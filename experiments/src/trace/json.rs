//! Writes a trace in the Chrome trace event format, an event a line.
//!
//! Times (`ts`, `dur`) are microseconds with three decimals, so nanoseconds are exact. Events stand in the order of time. At one instant a flow
//! that starts stands before the next slice of its track, and a flow that ends behind the slice that it leads to, for readers bind a flow to the
//! last slice that began on its track. Thread ids are unique over all processes, which some readers need.

use std::fmt::{self, Display};
use std::io::{self, Write};

use handoff_scheduler::{ModelIdx, RowKind, Timestamp};

use super::event::{Counts, Event, EventKind, Life, OPEN, Stay, Step};
use super::recorder::TraceObserver;
use super::{OtherData, Provenance};
use crate::output::manifest::Program;

const SUBSERVERS: Process = Process { pid: 1, name: "subservers", first_tid: 11 };
const DEVICES: Process = Process { pid: 2, name: "devices", first_tid: 101 };
const REQUESTS: Process = Process { pid: 3, name: "requests", first_tid: 1001 };

#[derive(Clone, Copy)]
struct Process {
    pid: u32,
    name: &'static str,
    /// The id of its first thread; the others follow. At most 32 models run, on as many devices.
    first_tid: usize,
}

impl TraceObserver {
    /// Writes the whole trace as one JSON document.
    pub(crate) fn into_json(mut self, provenance: &Provenance, out: &mut dyn Write) -> io::Result<()> {
        let (begins_ns, ends_ns) = provenance.window_ns;
        self.close(Timestamp::from_ns(ends_ns));
        for (at_ns, begins) in [(begins_ns, true), (ends_ns, false)] {
            if at_ns <= self.ended_ns() {
                self.events.push(Event { at_ns, kind: EventKind::Window { begins } });
            }
        }
        // Stays and forwards were kept when they ended. At one instant the order in which things were told stays.
        self.events.sort_by_key(|event| event.at_ns);
        let other = OtherData { program: Program::current(), provenance, stopped: self.stopped() };
        write!(
            out,
            "{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\n\"traceEvents\":[",
            serde_json::to_string(&other)?
        )?;
        let (names, mut lines) = (Names::of(&self), Lines { out, ended_ns: self.ended_ns(), is_first: true });
        lines.tracks(&self)?;
        for event in &self.events {
            lines.event(event, &self, &names)?;
        }
        writeln!(out, "\n]}}")
    }
}

/// Nanoseconds, shown as microseconds.
struct Us(u64);

impl Display for Us {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

/// Names by model, as JSON strings.
struct Names {
    model: Vec<String>,
    waiting: Vec<String>,
    running: Vec<String>,
    in_transit: Vec<String>,
}

impl Names {
    fn of(trace: &TraceObserver) -> Self {
        let all = |before: &str| trace.models.iter().map(|model| quoted(&format!("{before}{}", model.name))).collect();
        Self {
            model: all(""),
            waiting: all("waiting at "),
            running: all("running on "),
            in_transit: all("in transit to "),
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `prefill 1 + extend 2 + decode 3`, without the kinds of which there are none.
struct Kinds<'a>(&'a Step);

impl Display for Kinds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { prefill_rows, extend_rows, decode_rows, .. } = *self.0;
        let kinds = [("prefill", prefill_rows), ("extend", extend_rows), ("decode", decode_rows)];
        for (position, (kind, rows)) in kinds.iter().filter(|(_, rows)| *rows > 0).enumerate() {
            write!(f, "{}{kind} {rows}", if position == 0 { "" } else { " + " })?;
        }
        Ok(())
    }
}

/// A slice before its arguments.
struct Slice<'a> {
    /// A JSON string.
    name: &'a str,
    category: &'static str,
    process: &'static Process,
    /// Counted from 0 in the process.
    thread: usize,
    began_ns: u64,
    ended_ns: u64,
}

struct Lines<'o> {
    out: &'o mut dyn Write,
    /// Where open slices are cut.
    ended_ns: u64,
    is_first: bool,
}

impl Lines<'_> {
    fn line(&mut self, line: fmt::Arguments<'_>) -> io::Result<()> {
        let separator = if std::mem::take(&mut self.is_first) { "\n" } else { ",\n" };
        write!(self.out, "{separator}{line}")
    }

    /// Names of processes and threads, in the order in which they are to be shown.
    fn tracks(&mut self, trace: &TraceObserver) -> io::Result<()> {
        let n_slots = trace.lives.iter().map(|life| life.slot as usize + 1).max().unwrap_or(0);
        let models = trace.models.iter().map(|model| model.name.clone()).collect::<Vec<_>>();
        let slots = (0..n_slots).map(|slot| format!("slot {slot}")).collect::<Vec<_>>();
        for (process, threads) in [(&SUBSERVERS, &models), (&DEVICES, &trace.lanes), (&REQUESTS, &slots)] {
            let Process { pid, name, first_tid } = process;
            self.meta(*pid, *first_tid, "process_name", format_args!("\"name\":\"{name}\""))?;
            self.meta(*pid, *first_tid, "process_sort_index", format_args!("\"sort_index\":{pid}"))?;
            for (idx, thread) in threads.iter().enumerate() {
                let tid = first_tid + idx;
                self.meta(*pid, tid, "thread_name", format_args!("\"name\":{}", quoted(thread)))?;
                self.meta(*pid, tid, "thread_sort_index", format_args!("\"sort_index\":{idx}"))?;
            }
        }
        Ok(())
    }

    fn meta(&mut self, pid: u32, tid: usize, what: &str, argument: fmt::Arguments<'_>) -> io::Result<()> {
        self.line(format_args!(
            "{{\"name\":\"{what}\",\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"args\":{{{argument}}}}}"
        ))
    }

    fn event(&mut self, event: &Event, trace: &TraceObserver, names: &Names) -> io::Result<()> {
        let at_ns = event.at_ns;
        match event.kind {
            EventKind::Step(step) => self.step(at_ns, &trace.steps[step as usize], trace),
            EventKind::Forward { step, ended_ns } => self.forward(at_ns, ended_ns, &trace.steps[step as usize], trace),
            EventKind::Life(life) => self.life(at_ns, &trace.lives[life as usize]),
            EventKind::Stay { life, stay, ended_ns } => {
                self.stay((at_ns, ended_ns), &trace.lives[life as usize], stay, trace, names)
            }
            // Nothing carried it before the end of the trace.
            EventKind::FlowStart { arrived: false, .. } => Ok(()),
            EventKind::FlowStart { model, handoff, .. } => self.flow(at_ns, "s", model, handoff),
            EventKind::FlowEnd { model, handoff } => self.flow(at_ns, "f\",\"bp\":\"e", model, handoff),
            EventKind::Counts { model, counts } => self.counts(at_ns, model, counts, names),
            EventKind::Window { begins } => {
                let name = if begins { "measurement begins" } else { "measurement ends" };
                let (ts, Process { pid, first_tid, .. }) = (Us(at_ns), SUBSERVERS);
                self.line(format_args!(
                    "{{\"name\":\"{name}\",\"ph\":\"i\",\"s\":\"g\",\"ts\":{ts},\"pid\":{pid},\"tid\":{first_tid}}}"
                ))
            }
        }
    }

    fn flow(&mut self, at_ns: u64, phase: &str, model: ModelIdx, handoff: u32) -> io::Result<()> {
        let (ts, pid, tid) = (Us(at_ns), SUBSERVERS.pid, SUBSERVERS.first_tid + model.idx());
        self.line(format_args!(
            "{{\"name\":\"handoff\",\"cat\":\"handoff\",\"ph\":\"{phase}\",\"id\":{handoff},\"ts\":{ts},\"pid\":{pid},\"tid\":{tid}}}"
        ))
    }

    fn counts(&mut self, at_ns: u64, model: ModelIdx, counts: Counts, names: &Names) -> io::Result<()> {
        let (ts, pid, tid) = (Us(at_ns), SUBSERVERS.pid, SUBSERVERS.first_tid + model.idx());
        let (name, Counts { waiting, running, pending }) = (&names.model[model.idx()], counts);
        self.line(format_args!(
            "{{\"name\":{name},\"ph\":\"C\",\"ts\":{ts},\"pid\":{pid},\"tid\":{tid},\"args\":{{\"waiting\":{waiting},\"running\":{running},\"pending\":{pending}}}}}"
        ))
    }

    fn slice(&mut self, slice: &Slice<'_>, arguments: fmt::Arguments<'_>) -> io::Result<()> {
        let Slice { name, category, process, thread, began_ns, ended_ns } = *slice;
        let (pid, tid) = (process.pid, process.first_tid + thread);
        let (ts, dur) = (Us(began_ns), Us(ended_ns.min(self.ended_ns).saturating_sub(began_ns)));
        let unfinished = if ended_ns == OPEN { ",\"unfinished\":true" } else { "" };
        self.line(format_args!(
            "{{\"name\":{name},\"cat\":\"{category}\",\"ph\":\"X\",\"ts\":{ts},\"dur\":{dur},\"pid\":{pid},\"tid\":{tid},\"args\":{{{arguments}{unfinished}}}}}"
        ))
    }

    fn step(&mut self, began_ns: u64, step: &Step, trace: &TraceObserver) -> io::Result<()> {
        let name = format!("\"{}\"", Kinds(step));
        let slice = Slice {
            name: &name,
            category: "step",
            process: &SUBSERVERS,
            thread: step.model.idx(),
            began_ns,
            ended_ns: step.ended_ns,
        };
        let requests = &trace.step_requests[step.requests_start..][..step.rows() as usize];
        let Step { id, decode_rows, extend_rows, prefill_rows, new_tokens, kv_tokens, committed, handed_off, .. } =
            *step;
        let (rows, id, requests) = (step.rows(), id.0, Indices(requests));
        self.slice(
            &slice,
            format_args!(
                "\"step\":{id},\"rows\":{rows},\"prefill\":{prefill_rows},\"extend\":{extend_rows},\"decode\":{decode_rows},\"new_tokens\":{new_tokens},\"kv_tokens\":{kv_tokens},\"committed\":{committed},\"handed_off\":{handed_off},\"requests\":{requests}"
            ),
        )
    }

    fn forward(&mut self, began_ns: u64, ended_ns: u64, step: &Step, trace: &TraceObserver) -> io::Result<()> {
        let track = &trace.models[step.model.idx()];
        let name = quoted(&format!("{}: {}", track.name, Kinds(step)));
        let slice =
            Slice { name: &name, category: "forward", process: &DEVICES, thread: track.lane, began_ns, ended_ns };
        self.slice(&slice, format_args!("\"step\":{},\"rows\":{}", step.id.0, step.rows()))
    }

    fn life(&mut self, began_ns: u64, life: &Life) -> io::Result<()> {
        let Life { request_idx, slot, ended_ns, cancelled, committed, dropped, handoffs } = *life;
        let name = format!("\"request {request_idx}\"");
        let thread = slot as usize;
        let slice = Slice { name: &name, category: "request", process: &REQUESTS, thread, began_ns, ended_ns };
        let cancelled = if cancelled { ",\"cancelled\":true" } else { "" };
        self.slice(
            &slice,
            format_args!("\"committed\":{committed},\"dropped\":{dropped},\"handoffs\":{handoffs}{cancelled}"),
        )
    }

    fn stay(
        &mut self,
        (began_ns, ended_ns): (u64, u64),
        life: &Life,
        stay: Stay,
        trace: &TraceObserver,
        names: &Names,
    ) -> io::Result<()> {
        let (name, category) = match stay {
            Stay::Waiting(model) => (&names.waiting[model.idx()], "waiting"),
            Stay::Running(model, ..) => (&names.running[model.idx()], "running"),
            Stay::InTransit(model) => (&names.in_transit[model.idx()], "in transit"),
        };
        let thread = life.slot as usize;
        let slice = Slice { name, category, process: &REQUESTS, thread, began_ns, ended_ns };
        let request = life.request_idx;
        match stay {
            Stay::Running(_, step, kind) => {
                let (step, kind) = (trace.steps[step as usize].id.0, kind_name(kind));
                self.slice(&slice, format_args!("\"request\":{request},\"step\":{step},\"kind\":\"{kind}\""))
            }
            _ => self.slice(&slice, format_args!("\"request\":{request}")),
        }
    }
}

const fn kind_name(kind: RowKind) -> &'static str {
    match kind {
        RowKind::Prefill => "prefill",
        RowKind::Extend => "extend",
        RowKind::Decode => "decode",
    }
}

/// A list of whole numbers.
struct Indices<'a>(&'a [u64]);

impl Display for Indices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (position, index) in self.0.iter().enumerate() {
            write!(f, "{}{index}", if position == 0 { "" } else { "," })?;
        }
        f.write_str("]")
    }
}
