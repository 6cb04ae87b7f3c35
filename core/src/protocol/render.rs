//! A call's outcome on the wire: products and refusals, by the toolset's style and the client's revision.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::desktop::effect::EncodedImage;
use crate::engine::caller::Caller;
use crate::engine::call_table::Origin;
use crate::engine::core::Core;
use crate::rpc::body::{Body, error_response, push_json, push_json_string, response};
use crate::rpc::error::{INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError};
use crate::protocol::asking::Ask;
use crate::protocol::revision::Revision;
use crate::tools::content::{Block, Contents, ContentsBody};
use crate::tools::facts::{Facts, Refused};
use crate::tools::offers::{Completion, Product, PromptMessages, ResourcePage};
use crate::tools::toolset::RefusalStyle;

/// The most values that a completion may show.
const COMPLETIONS_MAX: usize = 100;

impl Core {
    /// `used` are the client's answers that the handler has read.
    pub(crate) fn answer(&mut self, caller: &Caller, origin: &Origin, used: Map<String, Value>, outcome: Result<Product, Refused>) {
        let body = origin.reply_wanted.then(|| match self.rendered(caller, origin, used, outcome) {
            Ok(result) => response(&origin.id, result),
            Err(error) => error_response(Some(&origin.id), &error),
        });
        self.reply(caller.conn, origin.route, origin.batch, body);
    }

    fn rendered(&mut self, caller: &Caller, origin: &Origin, used: Map<String, Value>, outcome: Result<Product, Refused>) -> Result<Body, RpcError> {
        match outcome {
            Ok(Product::Tool(facts)) => Ok(self.facts(caller, facts)),
            Ok(Product::Page(page)) => Ok(self.page(caller, page)),
            Ok(Product::Read(contents)) => Ok(self.contents(caller, &contents)),
            Ok(Product::Prompt(messages)) => Ok(self.prompt(caller, &messages)),
            Ok(Product::Completion(completion)) => Ok(self.completion(caller, completion)),
            Err(Refused::Rpc(error)) => Err(error),
            Err(Refused::NotFound(uri)) => {
                let code = if caller.revision.is_modern() { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
                Err(RpcError::new(code, "Resource not found").with_data(json!({"uri": uri})))
            }
            Err(Refused::InputRequired(asks)) => self.input_required(caller, origin, used, &asks),
            Err(refused) if origin.tool.is_some() => Ok(self.refusal(caller, refused)),
            Err(refused) => Err(as_error(refused)),
        }
    }

    fn facts(&self, caller: &Caller, facts: Facts) -> Body {
        if !facts.blocks.is_empty() {
            return self.result(caller, &facts.blocks, None, false);
        }
        let mut json = Vec::with_capacity(256);
        // A map of strings and values has no way not to be JSON.
        let _ = serde_json::to_writer(&mut json, &facts.data);
        let json = String::from_utf8(json).unwrap_or_default();
        let beside_image = facts.image.is_none() || self.toolset.style.image_with_structured;
        let structured = (facts.compact.is_none() && beside_image).then(|| json.clone());
        let text = Block::Text(facts.compact.unwrap_or(json));
        let blocks = match facts.image {
            Some(image) if image.first => vec![image_block(&image.encoded), text],
            Some(image) => vec![text, image_block(&image.encoded)],
            None => vec![text],
        };
        self.result(caller, &blocks, structured.as_deref(), false)
    }

    fn refusal(&self, caller: &Caller, refused: Refused) -> Body {
        let named = match refused {
            Refused::Named(named) => named,
            other => return self.result(caller, &[Block::Text(as_error(other).message)], None, true),
        };
        match self.toolset.style.refusal {
            RefusalStyle::Steering => self.result(caller, &[Block::Text(named.detail)], None, false),
            RefusalStyle::Error => {
                let mut data = Map::new();
                data.insert("error".into(), json!(named.name));
                data.insert("detail".into(), json!(named.detail));
                data.extend(named.more);
                let text = Value::Object(data).to_string();
                match &named.image {
                    Some(image) => self.result(caller, &[Block::Text(text), image_block(image)], None, true),
                    None => self.result(caller, &[Block::Text(text.clone())], Some(&text), true),
                }
            }
        }
    }

    fn result(&self, caller: &Caller, blocks: &[Block], structured: Option<&str>, is_error: bool) -> Body {
        let mut writer = Writer::begin(caller);
        writer.out.extend_from_slice(b"\"content\":[");
        for (i, block) in blocks.iter().enumerate() {
            if i > 0 {
                writer.out.push(b',');
            }
            writer.block(block);
        }
        writer.out.push(b']');
        if let Some(structured) = structured
            && caller.revision.has_structured_content()
        {
            writer.out.extend_from_slice(b",\"structuredContent\":");
            writer.out.extend_from_slice(structured.as_bytes());
        }
        writer.out.extend_from_slice(if is_error { b",\"isError\":true" } else { b",\"isError\":false" });
        let own = self.toolset.result_meta.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
        self.end(writer, caller, own)
    }

    fn page(&self, caller: &Caller, page: ResourcePage) -> Body {
        let mut result = json!({"resources": page.resources});
        if let Some(next) = page.next {
            result["nextCursor"] = json!(next);
        }
        let mut writer = Writer::begin(caller);
        writer.members(&result);
        writer.uncached(caller);
        self.end(writer, caller, None)
    }

    fn contents(&self, caller: &Caller, contents: &[Contents]) -> Body {
        let mut writer = Writer::begin(caller);
        writer.out.extend_from_slice(b"\"contents\":[");
        for (i, part) in contents.iter().enumerate() {
            if i > 0 {
                writer.out.push(b',');
            }
            writer.contents(part);
        }
        writer.out.push(b']');
        writer.uncached(caller);
        self.end(writer, caller, None)
    }

    fn prompt(&self, caller: &Caller, prompt: &PromptMessages) -> Body {
        let mut writer = Writer::begin(caller);
        if let Some(description) = &prompt.description {
            writer.out.extend_from_slice(b"\"description\":");
            push_json_string(&mut writer.out, description);
            writer.out.push(b',');
        }
        writer.out.extend_from_slice(b"\"messages\":[");
        for (i, (role, block)) in prompt.messages.iter().enumerate() {
            if i > 0 {
                writer.out.push(b',');
            }
            writer.out.extend_from_slice(b"{\"role\":");
            push_json_string(&mut writer.out, role.name());
            writer.out.extend_from_slice(b",\"content\":");
            writer.block(block);
            writer.out.push(b'}');
        }
        writer.out.push(b']');
        self.end(writer, caller, None)
    }

    fn completion(&self, caller: &Caller, mut completion: Completion) -> Body {
        let all = completion.values.len();
        completion.values.truncate(COMPLETIONS_MAX);
        let mut shown = json!({"values": completion.values, "hasMore": completion.has_more || all > COMPLETIONS_MAX});
        if let Some(total) = completion.total {
            shown["total"] = json!(total);
        }
        let mut writer = Writer::begin(caller);
        writer.members(&json!({"completion": shown}));
        self.end(writer, caller, None)
    }

    /// What was answered so far goes along in the state, so that only what is missing is asked again.
    fn input_required(&mut self, caller: &Caller, origin: &Origin, used: Map<String, Value>, asks: &[(String, Ask)]) -> Result<Body, RpcError> {
        let Some(binding) = &origin.binding else {
            return Err(RpcError::new(INTERNAL_ERROR, "Internal error: a question where none can be asked"));
        };
        let Some(state) = self.states.seal(self.now, &caller.principal, binding, used) else {
            return Err(RpcError::invalid_params("Invalid params: the answers given so far are too large to be carried on"));
        };
        let requests: Map<String, Value> =
            asks.iter().map(|(key, ask)| (key.clone(), json!({"method": ask.method(), "params": ask.params()}))).collect();
        let result = json!({
            "resultType": "input_required",
            "inputRequests": requests,
            "requestState": state,
            "_meta": self.result_meta(caller.revision),
        });
        Ok(crate::rpc::body::value_body(&result))
    }

    fn end(&self, mut writer: Writer, caller: &Caller, own_meta: Option<Map<String, Value>>) -> Body {
        let modern = caller.revision.has_result_type();
        match own_meta {
            None if modern => {
                writer.out.extend_from_slice(b",\"_meta\":");
                writer.out.extend_from_slice(self.modern_meta.as_bytes());
            }
            None => {}
            Some(mut meta) => {
                if modern && let Value::Object(map) = self.result_meta(caller.revision) {
                    meta.extend(map);
                }
                writer.out.extend_from_slice(b",\"_meta\":");
                push_json(&mut writer.out, &Value::Object(meta));
            }
        }
        writer.out.push(b'}');
        writer.body.push(Bytes::from(writer.out));
        writer.body
    }
}

/// What isn't a tool's call has no result that could tell of a refusal.
fn as_error(refused: Refused) -> RpcError {
    match refused {
        Refused::Rpc(error) => error,
        Refused::Arguments(text) => RpcError::invalid_params(format!("invalid arguments: {text}")),
        Refused::InputRequired(_) => RpcError::new(INTERNAL_ERROR, "Internal error: a question where none can be asked"),
        other => RpcError::invalid_params(other.sentence()),
    }
}

fn image_block(image: &EncodedImage) -> Block {
    Block::Image { mime: image.format.mime().to_string(), base64: image.base64.clone() }
}

/// JSON in pieces: what is base64 already stays the piece that it is.
struct Writer {
    revision: Revision,
    body: Body,
    out: Vec<u8>,
}

impl Writer {
    fn begin(caller: &Caller) -> Self {
        let mut out = Vec::with_capacity(256);
        out.push(b'{');
        if caller.revision.has_result_type() {
            out.extend_from_slice(b"\"resultType\":\"complete\",");
        }
        Self { revision: caller.revision, body: Body::default(), out }
    }

    /// The members of an object, without its braces.
    fn members(&mut self, object: &Value) {
        let mut text = Vec::with_capacity(256);
        push_json(&mut text, object);
        self.out.extend_from_slice(text.get(1..text.len().saturating_sub(1)).unwrap_or_default());
    }

    /// What a policy or a revocation may change at any time is nobody's to keep.
    fn uncached(&mut self, caller: &Caller) {
        if caller.revision.has_result_type() {
            self.out.extend_from_slice(b",\"ttlMs\":0,\"cacheScope\":\"private\"");
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Text(text) => self.text(text),
            Block::Image { mime, base64 } => self.media("image", mime, base64),
            // What a revision doesn't know would make a strict client refuse the whole result.
            Block::Audio { mime, .. } if !self.revision.has_audio() => self.text(&format!("[{mime}: the client's revision of the protocol carries no audio]")),
            Block::Link(resource) if !self.revision.has_resource_links() => {
                let field = |key: &str| resource.get(key).and_then(Value::as_str).unwrap_or_default();
                self.text(&format!("{}: {}", field("name"), field("uri")));
            }
            Block::Audio { mime, base64 } => self.media("audio", mime, base64),
            Block::Resource(contents) => {
                self.out.extend_from_slice(b"{\"type\":\"resource\",\"resource\":");
                self.contents(contents);
                self.out.push(b'}');
            }
            Block::Link(resource) => {
                self.out.extend_from_slice(b"{\"type\":\"resource_link\",");
                self.members(resource);
                self.out.push(b'}');
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
        push_json_string(&mut self.out, text);
        self.out.push(b'}');
    }

    fn media(&mut self, kind: &str, mime: &str, base64: &Bytes) {
        self.out.extend_from_slice(b"{\"type\":");
        push_json_string(&mut self.out, kind);
        self.out.extend_from_slice(b",\"mimeType\":");
        push_json_string(&mut self.out, mime);
        self.out.extend_from_slice(b",\"data\":\"");
        self.raw(base64);
        self.out.extend_from_slice(b"\"}");
    }

    fn contents(&mut self, contents: &Contents) {
        self.out.extend_from_slice(b"{\"uri\":");
        push_json_string(&mut self.out, &contents.uri);
        if let Some(mime) = &contents.mime {
            self.out.extend_from_slice(b",\"mimeType\":");
            push_json_string(&mut self.out, mime);
        }
        match &contents.body {
            ContentsBody::Text(text) => {
                self.out.extend_from_slice(b",\"text\":");
                push_json_string(&mut self.out, text);
            }
            ContentsBody::Blob(base64) => {
                self.out.extend_from_slice(b",\"blob\":\"");
                self.raw(base64);
                self.out.push(b'"');
            }
        }
        self.out.push(b'}');
    }

    fn raw(&mut self, base64: &Bytes) {
        self.body.push(Bytes::from(std::mem::take(&mut self.out)));
        self.body.push(base64.clone());
    }
}
