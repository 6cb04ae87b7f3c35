//! Measures stdio MCP servers: how soon they answer, how many calls they do, how much memory they keep.
//!
//! Two servers are run by turns, so that what else the machine does falls on both, and their ratios are printed.
//! Standard library only: the measuring side must not be the slow side.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: load [OPTIONS] --server NAME TOOL COMMAND... [--server NAME TOOL COMMAND...]

Runs each server (TOOL is the tool to call, COMMAND is split at spaces when it is one word) and prints one JSON object.
With two servers also `ratios`, the first over the second.

options, before the first --server:
  --rounds N       rounds of everything, servers taking turns (3)
  --starts N       starts to measure in all (30)
  --sequential N   calls one after the other, each round (5000)
  --pipelined N    calls with many in flight, each round (20000)
  --window N       how many are in flight at once in the windowed run (64)
  --arguments JSON the tool's arguments ({})
  --version V      the protocol version asked for (2025-06-18)
  --limit SECONDS  end everything after this long (300)";

struct Options {
    rounds: usize,
    starts: usize,
    sequential: usize,
    pipelined: usize,
    window: usize,
    arguments: String,
    version: String,
    limit: Duration,
}

struct Server {
    name: String,
    tool: String,
    command: Vec<String>,
}

/// All samples of one server.
#[derive(Default)]
struct Samples {
    start_ms: Vec<f64>,
    sequential_us: Vec<f64>,
    sequential_rate: Vec<f64>,
    windowed_rate: Vec<f64>,
    unlimited_rate: Vec<f64>,
    resident_kib: Vec<f64>,
    fresh_kib: Vec<f64>,
    errors: usize,
}

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let (options, servers) = parse(std::env::args().skip(1).collect())?;
    end_after(options.limit);
    let mut samples: Vec<Samples> = servers.iter().map(|_| Samples::default()).collect();
    for start in 0..options.starts {
        for position in turns(start, servers.len()) {
            let began = Instant::now();
            let peer = Peer::start(&servers[position], &options)?;
            samples[position].start_ms.push(began.elapsed().as_secs_f64() * 1e3);
            peer.end()?;
        }
    }
    for round in 0..options.rounds {
        for position in turns(round, servers.len()) {
            measure(&servers[position], &options, &mut samples[position])
                .map_err(|error| format!("{}: {error}", servers[position].name))?;
        }
    }
    println!("{}", report(&servers, &samples, &options));
    Ok(())
}

/// The order of this round: every other one is turned around.
fn turns(round: usize, count: usize) -> Vec<usize> {
    let forward = 0..count;
    if round.is_multiple_of(2) { forward.collect() } else { forward.rev().collect() }
}

fn measure(server: &Server, options: &Options, into: &mut Samples) -> Result<(), Failure> {
    let mut peer = Peer::start(server, options)?;
    into.fresh_kib.push(peer.resident_kib()?);
    peer.sequential(options.sequential / 10, &mut Vec::new(), &mut into.errors)?;
    let began = Instant::now();
    peer.sequential(options.sequential, &mut into.sequential_us, &mut into.errors)?;
    into.sequential_rate.push(options.sequential as f64 / began.elapsed().as_secs_f64());
    peer.end()?;

    let mut peer = Peer::start(server, options)?;
    let rate = peer.pipelined(options.pipelined, options.window, &mut into.errors)?;
    into.windowed_rate.push(rate);
    into.resident_kib.push(peer.resident_kib()?);
    peer.end()?;

    let mut peer = Peer::start(server, options)?;
    let rate = peer.pipelined(options.pipelined, usize::MAX, &mut into.errors)?;
    into.unlimited_rate.push(rate);
    peer.end()
}

/// One running server, past `initialize`.
struct Peer {
    child: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
    call_tail: String,
    next: u64,
}

impl Peer {
    fn start(server: &Server, options: &Options) -> Result<Self, Failure> {
        let mut child = Command::new(&server.command[0])
            .args(&server.command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", server.command[0]))?;
        let input = BufWriter::with_capacity(1 << 16, child.stdin.take().ok_or("no stdin")?);
        let output = BufReader::with_capacity(1 << 16, child.stdout.take().ok_or("no stdout")?);
        let call_tail = format!(
            ",\"method\":\"tools/call\",\"params\":{{\"name\":\"{}\",\"arguments\":{}}}}}\n",
            server.tool, options.arguments
        );
        let mut peer = Self { child, input, output, call_tail, next: 1 };
        writeln!(
            peer.input,
            "{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{{\"protocolVersion\":\"{}\",\
             \"capabilities\":{{}},\"clientInfo\":{{\"name\":\"load\",\"version\":\"1\"}}}}}}",
            options.version
        )?;
        peer.input.flush()?;
        let mut line = Vec::new();
        peer.line(&mut line)?;
        if !contains(&line, b"\"result\"") {
            return Err(format!("initialize was answered {}", String::from_utf8_lossy(&line)).into());
        }
        peer.input.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        peer.input.flush()?;
        Ok(peer)
    }

    /// Appends each call's time in microseconds.
    fn sequential(&mut self, count: usize, times: &mut Vec<f64>, errors: &mut usize) -> Result<(), Failure> {
        let mut line = Vec::new();
        for _ in 0..count {
            let began = Instant::now();
            self.write_call()?;
            self.input.flush()?;
            self.answer(&mut line, errors)?;
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
        Ok(())
    }

    /// Calls per second with up to `window` in flight; the writer is a thread of its own.
    fn pipelined(&mut self, count: usize, window: usize, errors: &mut usize) -> Result<f64, Failure> {
        let first = self.next;
        self.next += count as u64;
        let tail = self.call_tail.clone();
        let (give, take) = std::sync::mpsc::channel::<usize>();
        let Self { input, output, .. } = self;
        let began = Instant::now();
        let result = std::thread::scope(|scope| -> Result<(), Failure> {
            let writer = scope.spawn(move || -> std::io::Result<()> {
                let mut allowed = window.min(count);
                for sent in 0..count {
                    while sent >= allowed {
                        input.flush()?;
                        match take.recv() {
                            Ok(more) => allowed = allowed.saturating_add(more),
                            Err(_) => return Ok(()),
                        }
                        allowed = take.try_iter().fold(allowed, usize::saturating_add);
                    }
                    write!(input, "{{\"jsonrpc\":\"2.0\",\"id\":{}", first + sent as u64)?;
                    input.write_all(tail.as_bytes())?;
                }
                input.flush()
            });
            let mut line = Vec::new();
            let mut seen = 0;
            while seen < count {
                line.clear();
                if output.read_until(b'\n', &mut line)? == 0 {
                    return Err("the server ended its output".into());
                }
                if !contains(&line, b"\"id\"") {
                    continue;
                }
                *errors += usize::from(is_error(&line));
                seen += 1;
                let _ = give.send(1);
            }
            drop(give);
            writer.join().map_err(|_| "the writer failed")??;
            Ok(())
        });
        let seconds = began.elapsed().as_secs_f64();
        result.map(|()| count as f64 / seconds)
    }

    fn write_call(&mut self) -> std::io::Result<()> {
        write!(self.input, "{{\"jsonrpc\":\"2.0\",\"id\":{}", self.next)?;
        self.next += 1;
        self.input.write_all(self.call_tail.as_bytes())
    }

    /// Reads lines up to the next answer; notifications are passed over.
    fn answer(&mut self, line: &mut Vec<u8>, errors: &mut usize) -> Result<(), Failure> {
        loop {
            self.line(line)?;
            if contains(line, b"\"id\"") {
                *errors += usize::from(is_error(line));
                return Ok(());
            }
        }
    }

    fn line(&mut self, line: &mut Vec<u8>) -> Result<(), Failure> {
        line.clear();
        if self.output.read_until(b'\n', line)? == 0 {
            return Err("the server ended its output".into());
        }
        Ok(())
    }

    fn resident_kib(&self) -> Result<f64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.split_whitespace().nth(1).ok_or("no VmRSS")?.parse()?)
    }

    /// Closes the server's input and waits for its end, for at most two seconds.
    fn end(self) -> Result<(), Failure> {
        let Self { mut child, input, mut output, .. } = self;
        drop(input);
        let deadline = Instant::now() + Duration::from_secs(2);
        while child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                return Err("did not end within two seconds of its input's end".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut rest = Vec::new();
        output.read_to_end(&mut rest)?;
        Ok(())
    }
}

fn is_error(line: &[u8]) -> bool {
    contains(line, b"\"error\":") || contains(line, b"\"isError\":true")
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

/// A server that stops answering must not hold the measurement for ever.
fn end_after(limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        eprintln!("load: not done after {} s", limit.as_secs());
        std::process::exit(2);
    });
}

fn report(servers: &[Server], samples: &[Samples], options: &Options) -> String {
    let mut text = format!(
        "{{\n  \"rounds\": {}, \"starts\": {}, \"sequential\": {}, \"pipelined\": {}, \"window\": {},\n  \"servers\": {{",
        options.rounds, options.starts, options.sequential, options.pipelined, options.window
    );
    let figures: Vec<_> = samples.iter().map(figures).collect();
    for (position, server) in servers.iter().enumerate() {
        let comma = if position == 0 { "" } else { "," };
        let _ = write!(text, "{comma}\n    \"{}\": {}", server.name, object(&figures[position]));
    }
    text.push_str("\n  }");
    if let [one, other] = figures.as_slice() {
        let ratios: BTreeMap<_, _> = one
            .iter()
            .filter_map(|(name, value)| Some((*name, value / other.get(name).filter(|value| **value > 0.0)?)))
            .collect();
        let _ = write!(text, ",\n  \"ratios\": {}", object(&ratios));
    }
    text.push_str("\n}");
    text
}

fn figures(samples: &Samples) -> BTreeMap<&'static str, f64> {
    BTreeMap::from([
        ("errors", samples.errors as f64),
        ("initialize_ms_median", at(&samples.start_ms, 0.5)),
        ("pipelined_unlimited_per_s", at(&samples.unlimited_rate, 0.5)),
        ("pipelined_window_per_s", at(&samples.windowed_rate, 0.5)),
        ("rss_after_initialize_kib", at(&samples.fresh_kib, 0.5)),
        ("rss_after_pipelined_kib", at(&samples.resident_kib, 0.5)),
        ("sequential_p50_us", at(&samples.sequential_us, 0.5)),
        ("sequential_p99_us", at(&samples.sequential_us, 0.99)),
        ("sequential_per_s", at(&samples.sequential_rate, 0.5)),
    ])
}

fn object(values: &BTreeMap<&'static str, f64>) -> String {
    let fields: Vec<_> = values.iter().map(|(name, value)| format!("\"{name}\": {value:.3}")).collect();
    format!("{{{}}}", fields.join(", "))
}

/// The sample at this part of the sorted ones; 0.5 is the median.
fn at(samples: &[f64], part: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((part * last as f64).round() as usize).copied().unwrap_or(0.0)
}

fn parse(arguments: Vec<String>) -> Result<(Options, Vec<Server>), Failure> {
    let mut options = Options {
        rounds: 3,
        starts: 30,
        sequential: 5000,
        pipelined: 20_000,
        window: 64,
        arguments: "{}".to_owned(),
        version: "2025-06-18".to_owned(),
        limit: Duration::from_secs(300),
    };
    let mut groups = arguments.split(|argument| argument == "--server");
    let mut before = groups.next().unwrap_or_default().iter();
    while let Some(name) = before.next() {
        let value = before.next().ok_or(USAGE)?;
        match name.as_str() {
            "--rounds" => options.rounds = value.parse()?,
            "--starts" => options.starts = value.parse()?,
            "--sequential" => options.sequential = value.parse()?,
            "--pipelined" => options.pipelined = value.parse()?,
            "--window" => options.window = value.parse()?,
            "--arguments" => options.arguments.clone_from(value),
            "--version" => options.version.clone_from(value),
            "--limit" => options.limit = Duration::from_secs(value.parse()?),
            _ => return Err(USAGE.into()),
        }
    }
    let servers = groups.map(server).collect::<Result<Vec<_>, _>>()?;
    if servers.is_empty() || options.window == 0 {
        return Err(USAGE.into());
    }
    Ok((options, servers))
}

fn server(words: &[String]) -> Result<Server, Failure> {
    let [name, tool, command @ ..] = words else { return Err(USAGE.into()) };
    let command: Vec<String> = match command {
        [] => return Err(USAGE.into()),
        [one] => one.split_whitespace().map(str::to_owned).collect(),
        more => more.to_vec(),
    };
    Ok(Server { name: name.clone(), tool: tool.clone(), command })
}
