//! One connection to a database: questions, and what it tells unasked.

use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use model::switch::SwitchTarget;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::rows::{COLUMNS, Replica};
use super::splitter::Splitter;
use super::tls;
use crate::SwitchError;
use crate::error::told;
use model::switch::OvsdbAt;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an answer may take: the largest transaction takes well below a second.
const ANSWER: Duration = Duration::from_secs(20);
/// After so long without a word the server is asked whether it is there. It drops us after as long.
const PROBE: Duration = Duration::from_secs(5);
/// Bytes of one read.
const READ: usize = 64 * 1024;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection.
pub(super) struct Connection {
    at: String,
    stream: Box<dyn Stream>,
    splitter: Splitter,
    /// Bytes that are still to be sent: a connection may be left alone in the midst of them.
    out: BytesMut,
    next: u64,
    /// The rows that the database told.
    pub(super) replica: Replica,
}

/// A message of a server.
enum Message {
    Answer {
        id: Value,
        result: Value,
        error: Value,
    },
    /// It has told of rows, or asked whether we are here.
    Handled {
        is_update: bool,
    },
}

impl Connection {
    /// Connects, and has itself told of all that is watched, from now on.
    pub(super) async fn open(at: &OvsdbAt, target: &SwitchTarget) -> Result<Self, SwitchError> {
        let name = target.url.to_string();
        let connecting = timeout(CONNECT, stream(at, target, &name));
        let stream = connecting.await.map_err(|_elapsed| SwitchError::Silent {
            at: name.clone(),
            what: "the attempt to connect",
            within: CONNECT,
        })??;
        let mut connection = Self {
            at: name,
            stream,
            splitter: Splitter::default(),
            out: BytesMut::new(),
            next: 0,
            replica: Replica::default(),
        };
        let schema = connection.call("get_schema", json!(["Open_vSwitch"])).await?;
        let requests: serde_json::Map<String, Value> = COLUMNS
            .iter()
            .map(|(table, columns)| {
                let known = schema.pointer(&format!("/tables/{table}/columns"));
                let is_known =
                    |column: &&&str| known.is_some_and(|all| all.get(**column).is_some());
                let columns: Vec<&&str> = columns.iter().filter(is_known).collect();
                ((*table).to_owned(), json!({"columns": columns}))
            })
            .collect();
        let first = connection.call("monitor", json!(["Open_vSwitch", "gantry", requests])).await?;
        let taken = connection.replica.update(&first);
        taken.map_err(|why| SwitchError::protocol(&connection.at, why))?;
        Ok(connection)
    }

    /// Asks, and takes what else the server says until it answers.
    pub(super) async fn call(
        &mut self,
        method: &'static str,
        params: Value,
    ) -> Result<Value, SwitchError> {
        self.next += 1;
        let id = Value::from(self.next);
        self.say(&json!({"id": id, "method": method, "params": params}));
        let answer = async {
            self.flush().await?;
            loop {
                match self.receive().await? {
                    Message::Answer { id: of, result, error } if of == id => {
                        return Ok((result, error));
                    }
                    Message::Answer { id: of, .. } if of != json!("probe") => {
                        let why = format!("it answers question {of}, which nobody asked");
                        return Err(SwitchError::protocol(&self.at, told(&why)));
                    }
                    Message::Answer { .. } | Message::Handled { .. } => self.flush().await?,
                }
            }
        };
        let answered = timeout(ANSWER, answer).await;
        let (result, error) = answered.map_err(|_elapsed| self.silent(method, ANSWER))??;
        match error {
            Value::Null => Ok(result),
            error => {
                let why = told(&error.to_string());
                Err(SwitchError::Refused { at: self.at.clone(), what: method, why })
            }
        }
    }

    /// Waits until the server tells of rows. It may be dropped wherever it waits.
    pub(super) async fn updated(&mut self) -> Result<(), SwitchError> {
        let mut is_asked = false;
        loop {
            self.flush().await?;
            match timeout(PROBE, self.receive()).await {
                Ok(message) => {
                    is_asked = false;
                    if let Message::Handled { is_update: true } = message? {
                        return Ok(());
                    }
                }
                Err(_elapsed) if is_asked => return Err(self.silent("echo", PROBE)),
                Err(_elapsed) => {
                    is_asked = true;
                    self.say(&json!({"id": "probe", "method": "echo", "params": []}));
                }
            }
        }
    }

    /// Waits until `done` says so of what was told; false where that takes longer than `within`.
    pub(super) async fn told_within(
        &mut self,
        within: Duration,
        done: impl Fn(&Replica) -> bool + Send,
    ) -> Result<bool, SwitchError> {
        let waiting = async {
            while !done(&self.replica) {
                self.updated().await?;
            }
            Ok(())
        };
        match timeout(within, waiting).await {
            Ok(done) => done.map(|()| true),
            Err(_elapsed) => Ok(false),
        }
    }

    fn silent(&self, what: &'static str, within: Duration) -> SwitchError {
        SwitchError::Silent { at: self.at.clone(), what, within }
    }

    fn say(&mut self, message: &Value) {
        self.out.extend_from_slice(message.to_string().as_bytes());
    }

    async fn flush(&mut self) -> Result<(), SwitchError> {
        let unreached = |error| SwitchError::unreached(&self.at, &error);
        while self.out.has_remaining() {
            self.stream.write_buf(&mut self.out).await.map_err(unreached)?;
        }
        self.stream.flush().await.map_err(unreached)
    }

    async fn receive(&mut self) -> Result<Message, SwitchError> {
        loop {
            let whole = self.splitter.next();
            if let Some(bytes) =
                whole.map_err(|why| SwitchError::protocol(&self.at, why.to_string()))?
            {
                return self.message(&bytes);
            }
            let buffer = self.splitter.buffer();
            buffer.reserve(READ);
            let read = self.stream.read_buf(buffer).await;
            match read {
                Ok(0) => {
                    let why = "it closed the connection".to_owned();
                    return Err(SwitchError::Unreached { at: self.at.clone(), why });
                }
                Ok(_bytes) => {}
                Err(error) => return Err(SwitchError::unreached(&self.at, &error)),
            }
        }
    }

    fn message(&mut self, bytes: &[u8]) -> Result<Message, SwitchError> {
        let wrong = |why: String| SwitchError::protocol(&self.at, told(&why));
        let mut message: Value =
            serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        let mut take = |part: &str| message.get_mut(part).map(Value::take).unwrap_or_default();
        let (id, method) = (take("id"), take("method"));
        match method.as_str() {
            None => Ok(Message::Answer { id, result: take("result"), error: take("error") }),
            Some("echo") => {
                let answer = json!({"id": id, "result": take("params"), "error": null});
                self.say(&answer);
                Ok(Message::Handled { is_update: false })
            }
            Some("update") => {
                let params = take("params");
                let tables = params.get(1).unwrap_or(&Value::Null);
                self.replica.update(tables).map_err(wrong)?;
                Ok(Message::Handled { is_update: true })
            }
            Some(_) => Ok(Message::Handled { is_update: false }),
        }
    }
}

async fn stream(
    at: &OvsdbAt,
    target: &SwitchTarget,
    name: &str,
) -> Result<Box<dyn Stream>, SwitchError> {
    let unreached = |error| SwitchError::unreached(name, &error);
    Ok(match at {
        OvsdbAt::Unix { path } => Box::new(UnixStream::connect(path).await.map_err(unreached)?),
        OvsdbAt::Tcp { host, port } => Box::new(tcp(host, *port).await.map_err(unreached)?),
        OvsdbAt::Tls { host, port } => {
            let wrong = |why: String| SwitchError::Tls { at: name.to_owned(), why };
            let config = tls::config(target).map_err(wrong)?;
            let server = ServerName::try_from(host.clone());
            let server = server.map_err(|error| wrong(error.to_string()))?;
            let stream = tcp(host, *port).await.map_err(unreached)?;
            let connecting =
                TlsConnector::from(std::sync::Arc::new(config)).connect(server, stream);
            let stream = connecting.await.map_err(|error| {
                let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                let is_tls = tls.is_some();
                if is_tls { wrong(error.to_string()) } else { unreached(error) }
            })?;
            Box::new(stream)
        }
    })
}

async fn tcp(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
