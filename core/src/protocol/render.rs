//! A call's result on the wire: facts and refusals, by the toolset's style and the client's revision.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::desktop::effect::EncodedImage;
use crate::engine::caller::Caller;
use crate::engine::calls::Origin;
use crate::engine::core::Core;
use crate::rpc::body::{Body, push_json, push_json_string, response};
use crate::tools::facts::{Facts, Refused};
use crate::tools::toolset::RefusalStyle;

/// What stands in `content`, in order.
enum Block<'a> {
    Text(&'a str),
    Image(&'a EncodedImage),
}

impl Core {
    pub(crate) fn answer_call(&mut self, caller: &Caller, origin: &Origin, result: Result<Facts, Refused>) {
        let body = origin.reply_wanted.then(|| {
            let result = match &result {
                Ok(facts) => self.render_facts(caller, facts),
                Err(refused) => self.render_refusal(caller, refused),
            };
            response(&origin.id, result)
        });
        self.reply(caller.conn, origin.route, origin.batch, body);
    }

    fn render_facts(&self, caller: &Caller, facts: &Facts) -> Body {
        let mut json = Vec::with_capacity(256);
        // A map of strings and values has no way not to be JSON.
        let _ = serde_json::to_writer(&mut json, &facts.data);
        let json = String::from_utf8(json).unwrap_or_default();
        let text = facts.compact.as_deref().unwrap_or(&json);
        let beside_image = facts.image.is_none() || self.toolset.style.image_with_structured;
        let structured = (facts.compact.is_none() && beside_image).then_some(json.as_str());
        match &facts.image {
            Some(image) if image.first => self.result(caller, &[Block::Image(&image.encoded), Block::Text(text)], structured, false),
            Some(image) => self.result(caller, &[Block::Text(text), Block::Image(&image.encoded)], structured, false),
            None => self.result(caller, &[Block::Text(text)], structured, false),
        }
    }

    fn render_refusal(&self, caller: &Caller, refused: &Refused) -> Body {
        match refused {
            Refused::Schema(text) => self.result(caller, &[Block::Text(text)], None, true),
            Refused::Arguments(text) => self.result(caller, &[Block::Text(&format!("invalid arguments: {text}"))], None, true),
            Refused::Named(named) => match self.toolset.style.refusal {
                RefusalStyle::Steering => self.result(caller, &[Block::Text(&named.detail)], None, false),
                RefusalStyle::Error => {
                    let mut data = Map::new();
                    data.insert("error".into(), json!(named.name));
                    data.insert("detail".into(), json!(named.detail));
                    data.extend(named.more.clone());
                    let text = Value::Object(data).to_string();
                    match &named.image {
                        Some(image) => self.result(caller, &[Block::Text(&text), Block::Image(image)], None, true),
                        None => self.result(caller, &[Block::Text(&text)], Some(&text), true),
                    }
                }
            },
        }
    }

    fn result(&self, caller: &Caller, blocks: &[Block], structured: Option<&str>, is_error: bool) -> Body {
        let modern = caller.revision.has_result_type();
        let mut body = Body::default();
        let mut out = Vec::with_capacity(256);
        out.push(b'{');
        if modern {
            out.extend_from_slice(b"\"resultType\":\"complete\",");
        }
        out.extend_from_slice(b"\"content\":[");
        for (i, block) in blocks.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            match block {
                Block::Text(text) => {
                    out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                    push_json_string(&mut out, text);
                    out.push(b'}');
                }
                Block::Image(image) => {
                    out.extend_from_slice(b"{\"type\":\"image\",\"mimeType\":");
                    push_json_string(&mut out, image.format.mime());
                    out.extend_from_slice(b",\"data\":\"");
                    body.push(Bytes::from(std::mem::take(&mut out)));
                    body.push(image.base64.clone());
                    out.extend_from_slice(b"\"}");
                }
            }
        }
        out.push(b']');
        if let Some(structured) = structured
            && caller.revision.has_structured_content()
        {
            out.extend_from_slice(b",\"structuredContent\":");
            out.extend_from_slice(structured.as_bytes());
        }
        out.extend_from_slice(if is_error { b",\"isError\":true" } else { b",\"isError\":false" });
        let own = self.toolset.result_meta.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
        if modern || own.is_some() {
            let mut meta = own.unwrap_or_default();
            if modern && let Value::Object(map) = self.result_meta(caller.revision) {
                meta.extend(map);
            }
            out.extend_from_slice(b",\"_meta\":");
            push_json(&mut out, &Value::Object(meta));
        }
        out.push(b'}');
        body.push(Bytes::from(out));
        body
    }
}
