//! Compares the library's answers, displayed, with the texts of the tools.

use serde_json::{Value, json};
use steelbank::tools::{Call, Permissions, Session};
use steelbank::{
    AproposRequest, Control, DescribeSymbolRequest, EvaluateRequest, FindDefinitionRequest, InspectRequest,
    Inspected, MacroexpandRequest, PackageInfoRequest,
};

use crate::asks::Asks;
use crate::image::bank;
use crate::texts::expect_text;

#[test]
fn library_and_tools_have_equal_texts() {
    let session = Session::new(bank().clone()).allowing(Permissions::ALL);
    let said = |tool: &str, arguments: Value| {
        let tool = steelbank::actions::tools().get(tool).unwrap();
        tool.call(&session, arguments.as_object().unwrap().clone(), &Call::default()).unwrap().text
    };
    let found = bank().answer(&AproposRequest::new("cl:hash-table-count"));
    assert_eq!(found.to_string(), said("apropos", json!({ "pattern": "cl:hash-table-count" })));
    let described = bank().answer(&DescribeSymbolRequest::new("cl:print-object"));
    assert_eq!(described.to_string(), said("describe-symbol", json!({ "name": "cl:print-object" })));
    let defined = bank().answer(&FindDefinitionRequest::new("cl:mapcar"));
    assert_eq!(defined.to_string(), said("find-definition", json!({ "name": "cl:mapcar" })));
    let package = bank().answer(&PackageInfoRequest::new("sb-gray"));
    assert_eq!(package.to_string(), said("package-info", json!({ "package": "sb-gray" })));
    let expanded = bank().answer(&MacroexpandRequest::new("(when a b c)"));
    assert_eq!(expanded.to_string(), said("macroexpand", json!({ "form": "(when a b c)" })));
    let code = "(warn \"Look.\") (print 1) (values 1 \"two\")";
    assert_eq!(
        bank().done(&EvaluateRequest::new(code)).to_string(),
        said("evaluate", json!({ "code": code }))
    );
    let evaluation = bank().done(&EvaluateRequest::new("(list 1 (list 2))"));
    let handle = evaluation.values[0].handle.clone().unwrap();
    assert!(evaluation.to_string().ends_with(&format!("({handle})")), "{evaluation}");
    let inspection = bank().done(&InspectRequest::new(Inspected::Handle(handle.clone())));
    assert_eq!(inspection.to_string(), said("inspect", json!({ "handle": handle })));
}

#[test]
fn missing_subjects_have_a_message() {
    let expansion = MacroexpandRequest { package: "nosuch".to_owned(), ..MacroexpandRequest::new("(a)") };
    let inspect = |subject: Inspected| bank().done(&InspectRequest::new(subject)).to_string();
    let texts = [
        bank().ask(&DescribeSymbolRequest::new("cl:nosuch"), &Control::default()).unwrap_err().to_string(),
        bank().answer(&AproposRequest::new("displayed-nosuch")).to_string(),
        bank().answer(&PackageInfoRequest::new("nosuch")).to_string(),
        bank().answer(&expansion).to_string(),
        bank().done(&EvaluateRequest::new("1").package("nosuch")).to_string(),
        inspect(Inspected::Handle("#x".to_owned())),
        inspect(Inspected::Expression("(values)".to_owned())),
    ];
    expect_text("missing", &texts.join("\n\n"));
}
