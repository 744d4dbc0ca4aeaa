//! An object store in this process that speaks as much of S3 as the command needs, with one bucket `bucket`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::support::sparrow;

#[derive(Default)]
struct State {
    /// Objects with the number of the write that made them, which is their tag.
    objects: BTreeMap<String, (u64, Vec<u8>)>,
    uploads: BTreeMap<u64, BTreeMap<u32, Vec<u8>>>,
    writes: u64,
    /// An object that no upload is completed to.
    refused: Option<String>,
    /// How many uploads there were without any part, at most, when one was completed.
    most_empty: usize,
}

pub struct Server {
    address: String,
    state: Arc<Mutex<State>>,
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Answer {
    status: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    fn error(status: &'static str, code: &str) -> Self {
        Self::new(status, format!("<Error><Code>{code}</Code></Error>"))
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { address, state }
    }

    /// The command, told of this store.
    pub fn sparrow(&self) -> Command {
        let mut command = sparrow();
        command
            .env("AWS_ENDPOINT", format!("http://{}", self.address))
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("AWS_REGION", "nowhere");
        command
    }

    /// The address of an object for any web client.
    pub fn web(&self, key: &str) -> String {
        format!("http://{}/bucket/{key}", self.address)
    }

    pub fn put(&self, key: &str, content: Vec<u8>) {
        self.state.lock().expect("state").put(key.to_string(), content);
    }

    /// All objects below a prefix.
    pub fn objects(&self, prefix: &str) -> BTreeMap<String, Vec<u8>> {
        let state = self.state.lock().expect("state");
        let below = state.objects.iter().filter(|(key, _)| key.starts_with(prefix));
        below.map(|(key, (_, content))| (key[prefix.len()..].to_string(), content.clone())).collect()
    }

    /// Uploads that were neither completed nor aborted.
    pub fn unfinished_uploads(&self) -> usize {
        self.state.lock().expect("state").uploads.len()
    }

    /// Lets completing uploads to an object fail.
    pub fn refuse(&self, key: &str) {
        self.state.lock().expect("state").refused = Some(key.to_string());
    }

    /// How many uploads had nothing in the store, at most, when one was completed.
    pub fn most_empty_uploads(&self) -> usize {
        self.state.lock().expect("state").most_empty
    }
}

impl State {
    fn put(&mut self, key: String, content: Vec<u8>) -> u64 {
        self.writes += 1;
        self.objects.insert(key, (self.writes, content));
        self.writes
    }

    fn answer(&mut self, request: Request) -> Answer {
        let (bucket, key) = request.path.split_once('/').unwrap_or((&request.path, ""));
        if bucket != "bucket" {
            return Answer::error("404 Not Found", "NoSuchBucket");
        }
        let key = key.to_string();
        let upload = request.query.get("uploadId").and_then(|id| id.parse::<u64>().ok());
        let header = |name: &str| request.headers.get(name).map(String::as_str);
        let tag = self.objects.get(&key).map(|(tag, _)| format!("\"{tag}\""));
        match (request.method.as_str(), upload) {
            ("GET", _) if key.is_empty() => self.list(&request.query),
            ("GET" | "HEAD", _) => match self.objects.get(&key) {
                None => Answer::error("404 Not Found", "NoSuchKey"),
                Some((tag, content)) => part_of(content, header("range"))
                    .with("ETag", format!("\"{tag}\""))
                    .with("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT"),
            },
            ("PUT", Some(upload)) => {
                let part = request.query["partNumber"].parse().expect("a number");
                self.uploads.get_mut(&upload).expect("an upload").insert(part, request.body);
                Answer::new("200 OK", "").with("ETag", format!("\"{part}\""))
            }
            ("PUT", None) if header("if-none-match") == Some("*") && tag.is_some() => {
                Answer::error("412 Precondition Failed", "PreconditionFailed")
            }
            ("PUT", None) if header("if-match").is_some() && header("if-match") != tag.as_deref() => {
                Answer::error("412 Precondition Failed", "PreconditionFailed")
            }
            ("PUT", None) => {
                let tag = self.put(key, request.body);
                Answer::new("200 OK", "").with("ETag", format!("\"{tag}\""))
            }
            ("POST", Some(_)) if self.refused.as_ref() == Some(&key) => {
                Answer::error("403 Forbidden", "AccessDenied")
            }
            ("POST", Some(upload)) => {
                let empty = self.uploads.values().filter(|parts| parts.is_empty()).count();
                self.most_empty = self.most_empty.max(empty);
                let parts = self.uploads.remove(&upload).expect("an upload");
                self.put(key, parts.into_values().flatten().collect());
                Answer::new(
                    "200 OK",
                    "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>",
                )
            }
            ("POST", None) if request.query.contains_key("uploads") => {
                self.writes += 1;
                self.uploads.insert(self.writes, BTreeMap::new());
                let id = self.writes;
                Answer::new(
                    "200 OK",
                    format!(
                        "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                    ),
                )
            }
            ("POST", None) => {
                let text = String::from_utf8(request.body).expect("text");
                let mut deleted = String::new();
                for key in text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()) {
                    self.objects.remove(&key.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"));
                    deleted += &format!("<Deleted><Key>{key}</Key></Deleted>");
                }
                Answer::new("200 OK", format!("<DeleteResult>{deleted}</DeleteResult>"))
            }
            ("DELETE", Some(upload)) => {
                self.uploads.remove(&upload);
                Answer::new("204 No Content", "")
            }
            _ => Answer::error("501 Not Implemented", "NotImplemented"),
        }
    }

    /// Keys below a prefix, two at a time so that continuing is tried, too.
    fn list(&self, query: &BTreeMap<String, String>) -> Answer {
        let text = |name: &str| query.get(name).cloned().unwrap_or_default();
        let (prefix, delimiter) = (text("prefix"), text("delimiter"));
        let after = text("start-after").max(text("continuation-token"));
        let mut lines: BTreeMap<String, String> = BTreeMap::new();
        for (key, (tag, content)) in self.objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            let shown = |key: &str| key.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            match key[prefix.len()..].split_once('/').filter(|_| !delimiter.is_empty()) {
                Some((folder, _)) => {
                    let folder = format!("{prefix}{folder}/");
                    let line =
                        format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", shown(&folder));
                    lines.insert(folder, line);
                }
                None => {
                    lines.insert(key.clone(), format!(
                        "<Contents><Key>{}</Key><Size>{}</Size><LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>\"{tag}\"</ETag></Contents>",
                        shown(key), content.len()
                    ));
                }
            }
        }
        let rest: Vec<(String, String)> = lines.into_iter().filter(|(key, _)| *key > after).collect();
        let page = &rest[..rest.len().min(2)];
        let next = page.last().filter(|_| rest.len() > 2);
        let next = next.map(|(key, _)| format!("<NextContinuationToken>{key}</NextContinuationToken>"));
        let body: String = page.iter().map(|(_, line)| line.as_str()).collect();
        Answer::new(
            "200 OK",
            format!("<ListBucketResult>{}{body}</ListBucketResult>", next.unwrap_or_default()),
        )
    }
}

fn part_of(content: &[u8], range: Option<&str>) -> Answer {
    let Some((from, to)) = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-')) else {
        return Answer::new("200 OK", content);
    };
    let size = content.len();
    let (from, to) = match (from.parse::<usize>(), to.parse::<usize>()) {
        (Ok(from), Ok(to)) => (from, (to + 1).min(size)),
        (Ok(from), Err(_)) => (from, size),
        (Err(_), Ok(last)) => (size.saturating_sub(last), size),
        _ => (size, size),
    };
    if from >= to {
        return Answer::error("416 Range Not Satisfiable", "InvalidRange");
    }
    Answer::new("206 Partial Content", &content[from..to])
        .with("Content-Range", format!("bytes {from}-{}/{size}", to - 1))
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut writer = stream;
    while let Some(request) = read(&mut reader) {
        let head = request.method == "HEAD";
        let answer = state.lock().expect("state").answer(request);
        let mut text = format!("HTTP/1.1 {}\r\nContent-Length: {}\r\n", answer.status, answer.body.len());
        for (name, value) in &answer.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        let body = if head { &[][..] } else { &answer.body };
        if writer.write_all(text.as_bytes()).and_then(|()| writer.write_all(body)).is_err() {
            return;
        }
    }
}

/// The next request; `None` when the other side has gone, even in the middle of one.
fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_string()),
        }
    }
    let mut first = lines.first()?.split(' ');
    let (method, target) = (first.next()?.to_string(), first.next()?);
    let headers: BTreeMap<String, String> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string()))
        .collect();
    let mut body =
        vec![0; headers.get("content-length").map_or(0, |length| length.parse().expect("a length"))];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    };
    let query = query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect();
    Some(Request { method, path: decoded(path.trim_start_matches('/')), query, headers, body })
}

/// Bytes that are written as `%41`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).expect("digits");
                bytes.push(u8::from_str_radix(digits, 16).expect("a byte"));
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).expect("text")
}
