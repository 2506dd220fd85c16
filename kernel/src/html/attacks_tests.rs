//! Attacks for tests of the page: strings that run code or load something where they are not
//! sanitized.

/// Strings that would run code, load something from elsewhere or leave their box.
pub const HTML_PAYLOADS: &[&str] = &[
    "<script>alert(1)</script>",
    "<SCRIPT src=//example.org/x>alert(1)</SCRIPT >",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<script/x>alert(1)</script/x>",
    "<script\n>alert(1)</script\n>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><script href=\"data:text/javascript,alert(1)\"/></svg>",
    "<math><script>alert(1)</script></math>",
    "<img src=x onerror=alert(1)>",
    "<img src=x:x onerror\t=alert(1)>",
    "<img/src=x/onerror=alert(1)>",
    "<img src=\"x\"onerror=\"alert(1)\">",
    "<img src=`x`onerror=alert(1)>",
    "<img src=https://example.org/pixel.png>",
    "<img src=//example.org/pixel.png>",
    "<img src=pixel.png>",
    "<img srcset=\"https://example.org/x 2x\">",
    "<img src=\"data:text/html,<script>alert(1)</script>\">",
    "<img src=\"data:image/png,x\" onload=alert(1)>",
    "<image src=x onerror=alert(1)>",
    "<svg><image href=https://example.org/x /></svg>",
    "<svg><image xlink:href=\"https://example.org/x\"/></svg>",
    "<svg><use href=\"https://example.org/x.svg#a\"/></svg>",
    "<svg><use xlink:href=\"data:image/svg+xml;base64,PHN2Zz4=#x\"/></svg>",
    "<svg><feImage href=\"https://example.org/x\"/></svg>",
    "<svg onload=alert(1)>",
    "<svg/onload=alert(1)>",
    "<svg><g onclick=alert(1)><text>x</text></g></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><a><animate attributeName=href values=javascript:alert(1) /><text>x</text></a></svg>",
    "<svg><set attributeName=onmouseover to=alert(1)></svg>",
    "<svg><a xlink:href=\"javascript:alert(1)\"><text>x</text></a></svg>",
    "<svg><foreignObject><iframe src=x></iframe></foreignObject></svg>",
    "<svg><foreignObject><img src=x onerror=alert(1)></foreignObject></svg>",
    "<svg><style>@import url(https://example.org/x);</style></svg>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "<svg><title><img src=x onerror=alert(1)></title></svg>",
    "<svg></p><style><a id=\"</style><img src=1 onerror=alert(1)>\">",
    "<svg><desc><![CDATA[</desc><script>alert(1)</script>]]></svg>",
    "<svg><rect fill=\"url(https://example.org/x#a)\"/></svg>",
    "<svg><rect style=\"fill:url(https://example.org/x)\"/></svg>",
    "<svg><g mask=\"url(//example.org/x#m)\" clip-path=\"url('https://example.org/x')\"/></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table>",
    "<math href=\"javascript:alert(1)\"><mi>x</mi></math>",
    "<math><annotation-xml encoding=\"text/html\"><img src=x onerror=alert(1)></annotation-xml>",
    "<math><maction actiontype=statusline xlink:href=javascript:alert(1)>x</maction></math>",
    "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<a href=\"javascript:alert(1)\">x</a>",
    "<a href=\"java&#115;cript:alert(1)\">x</a>",
    "<a href=\" java\nscript:alert(1)\">x</a>",
    "<a href=\"&#1;javascript:alert(1)\">x</a>",
    "<a href=\"JaVaScRiPt&colon;alert(1)\">x</a>",
    "<a href=\"vbscript:msgbox(1)\">x</a>",
    "<a href=\"data:text/html;base64,PHNjcmlwdD4=\">x</a>",
    "<a/onclick=alert(1) href=#>x</a>",
    "<a href=# ping=https://example.org>x</a>",
    "<div \"onclick=alert(1)>",
    "<div onmouseover = alert(1)>x</div>",
    "<details open ontoggle=alert(1)>x</details>",
    "<div style=\"background:url(https://example.org/x)\">",
    "<div style=\"background:u\\72l(https://example.org/x)\">",
    "<div style=\"width:expression(alert(1))\">",
    "<div style=\"-moz-binding:url(https://example.org/x)\">",
    "<table background=https://example.org/x><td background=x>x</td></table>",
    "<style>@import url(https://example.org/x)</style>",
    "<style>body{background:url(https://example.org/x)}</style>",
    "<link rel=stylesheet href=https://example.org/x>",
    "<iframe srcdoc=\"<script>alert(1)</script>\"></iframe>",
    "<iframe src=javascript:alert(1)>",
    "<object data=https://example.org/x></object>",
    "<embed src=https://example.org/x>",
    "<video src=x onerror=alert(1)><source src=https://example.org/x></video>",
    "<audio src onloadstart=alert(1)>",
    "<form action=https://example.org><input name=a><button>x</button></form>",
    "<input autofocus onfocus=alert(1)>",
    "<input type=image src=https://example.org/x>",
    "<button formaction=javascript:alert(1)>x</button>",
    "<textarea><img src=x onerror=alert(1)></textarea>",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\"></noscript>",
    "<template><script>alert(1)</script></template>",
    "<plaintext><script>alert(1)</script>",
    "<xmp><p title=\"</xmp><img src=x onerror=alert(1)>\">",
    "<meta http-equiv=refresh content=\"0;url=javascript:alert(1)\">",
    "<base href=https://example.org/>",
    "<body onload=alert(1)>",
    "<html><head><script>alert(1)</script></head></html>",
    "<marquee onstart=alert(1)>x</marquee>",
    "<isindex action=javascript:alert(1) type=image>",
    "<portal src=https://example.org></portal>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<!--[if gte IE 4]><script>alert(1)</script><![endif]-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?xml-stylesheet href=\"javascript:alert(1)\"?>",
    "\u{0}<\u{0}script>alert(1)</script>",
    "<<script>alert(1)//<</script>",
    "</section></main><script>alert(1)</script>",
];

/// Vega-Lite specifications that would load something, leave their script element or reach another
/// part of the page; and whether they are refused.
pub const SPECIFICATION_PAYLOADS: &[(&str, bool)] = &[
    (r#"{"data": {"url": "https://example.org/x.json"}, "mark": "point"}"#, true),
    (r#"{"data": {"\u0075rl": "//example.org/x.csv"}, "mark": "point"}"#, true),
    (r#"{"data": {"url": {"expr": "'https://example.org/' + x"}}, "mark": "point"}"#, true),
    (r#"{"mark": {"type": "image", "url": "https://example.org/x.png"}}"#, true),
    (r#"{"mark": "image", "encoding": {"url": {"field": "a"}}}"#, true),
    (r#"{"mark": "point", "encoding": {"href": {"value": "javascript:alert(1)"}}}"#, true),
    (r#"{"mark": {"type": "point", "href": "https://example.org"}}"#, true),
    (r#"{"mark": "point", "config": {"mark": {"href": "https://example.org"}}}"#, true),
    (r#"{"mark": "point", "config": {"style": {"x": {"href": "javascript:alert(1)"}}}}"#, true),
    (r#"{"layer": [{"mark": "point"}, {"concat": [{"data": {"url": "x"}}]}]}"#, true),
    (
        r#"{"transform": [{"lookup": "a", "from": {"data": {"url": "x"}, "key": "a"}}],
            "mark": "point"}"#,
        true,
    ),
    (r#"{"usermeta": {"embedOptions": {"ast": false, "loader": {}}}, "mark": "point"}"#, true),
    (r#"{"usermeta": {"embedOptions": "https://example.org/x.json"}, "mark": "point"}"#, true),
    (r#"{"params": [{"name": "a", "bind": {"element": "main", "event": "click"}}]}"#, true),
    (r#"{"$schema": "https://vega.github.io/schema/vega/v5.json", "marks": []}"#, true),
    (r#"["https://example.org/x.vl.json"]"#, true),
    (r#""https://example.org/x.vl.json""#, true),
    (r#"{"data": "https://example.org/x.json", "mark": "point"}"#, true),
    (r#"{"data": {"sequence": {"start": 0, "stop": 1e12}}, "mark": "point"}"#, true),
    (r#"{"data": {"name": "x", "loader": {"baseURL": "https://example.org"}}}"#, true),
    (r#"{"__proto__": {"ast": false}, "mark": "point"}"#, true),
    (r#"{"config": {"constructor": {"prototype": {"ast": false}}}, "mark": "point"}"#, true),
    (r#"{"params": [{"name": "a", "bind": {"input": "text", "onfocus": "alert(1)"}}]}"#, true),
    (r#"{"params": [{"name": "a", "bind": {"input": "submit", "formaction": "x"}}]}"#, true),
    (r#"{"params": [{"name": "a", "bind": {"b": {"input": "range", "onclick": "x"}}}]}"#, true),
    (r#"{"config": {"signals": [{"name": "a", "bind": {"input": "image"}}]}}"#, true),
    (r#"{"$schema": "https://example.org/vega-lite/v5.json", "mark": "point"}"#, true),
    (r#"{"params": [{"name": "a", "bind": {"input": "range", "min": 0, "max": 1}}]}"#, false),
    (r#"{"title": "</script><script>alert(1)</script>", "mark": "point"}"#, false),
    (r#"{"title": "</SCRIPT ><img src=x onerror=alert(1)>", "mark": "point"}"#, false),
    (r#"{"title": "<!--<script>", "mark": "point"}"#, false),
    (r#"{"</script><svg onload=alert(1)>": 1, "mark": "point"}"#, false),
    (r#"{"title": "\u003c/script>\u2028<b onclick=alert(1)>", "mark": "point"}"#, false),
    (
        r#"{"data": {"values": [{"image": "https://example.org/x.png"}]},
            "mark": {"type": "point", "tooltip": {"content": "data"}, "cursor":
            "url(https://example.org/x)", "fill": "url(https://example.org/x#a)"}}"#,
        false,
    ),
];

/// Returns the parts of HTML that run code or load something. The check has a tokenizer of its
/// own, which takes `<` before a letter for an element wherever it is not inside quotes.
pub fn find_active_content(html: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            continue;
        }
        let mut quoted = false;
        let end = rest.find(|c| {
            quoted ^= c == '"';
            c == '>' && !quoted
        });
        let tag = &rest[..end.unwrap_or(rest.len())];
        if is_active(&tag.to_ascii_lowercase()) {
            found.push(tag.to_owned());
        }
        rest = &rest[tag.len()..];
    }
    found
}

/// Returns whether a tag (name and attributes, in lower case) runs code or loads something.
fn is_active(tag: &str) -> bool {
    const ELEMENTS: &[&str] = &[
        "script",
        "style",
        "link",
        "iframe",
        "object",
        "embed",
        "form",
        "button",
        "meta",
        "base",
        "video",
        "audio",
        "source",
        "foreignobject",
        "animate",
        "set",
        "feimage",
        "template",
        "textarea",
        "noscript",
        "plaintext",
        "xmp",
        "body",
        "html",
        "head",
        "marquee",
        "portal",
        "annotation-xml",
        "maction",
        "mglyph",
        "isindex",
        "frame",
    ];
    let name = tag.split([' ', '/', '\n']).next().unwrap_or_default();
    let mut attributes = tag[name.len()..].split("=\"");
    let mut attribute = attributes.next().unwrap_or_default().trim().to_owned();
    let mut live = ELEMENTS.contains(&name);
    for part in attributes {
        let (value, next) = part.split_once('"').unwrap_or((part, ""));
        let loads = match attribute.as_str() {
            "src" => !value.starts_with("data:image/"),
            "href" | "xlink:href" if name == "a" => !["http://", "https://", "mailto:", "#"]
                .iter()
                .any(|start| value.starts_with(start)),
            "href" | "xlink:href" => !value.starts_with('#') && !value.starts_with("data:image/"),
            "srcset" | "ping" | "action" | "formaction" | "background" | "srcdoc" => true,
            other => other.starts_with("on") || value.contains("url(") && !value.contains("url(#"),
        };
        live |= loads || value.contains("javascript:") || value.contains("expression(");
        attribute = next.trim().to_owned();
    }
    // An attribute without a value.
    live || attribute.trim_end_matches('/').starts_with("on")
}

#[test]
fn the_check_of_pages_finds_what_is_live() {
    let harmless = ["<![CDATA[<b>]]>", "<p title=\"<script>\">x</p>", "<a href=\"#x\">x</a>"];
    assert!(harmless.iter().all(|html| find_active_content(html).is_empty()));
    for live in [
        "<script>",
        "x<b onclick=\"f()\">",
        "<img src=\"x.png\">",
        "<a href=\"javascript:x\">",
        "<p style=\"a:url(x)\">",
        "<use xlink:href=\"http://x\">",
        "<p onclick>",
    ] {
        assert_eq!(find_active_content(live).len(), 1, "{live}");
    }
}
