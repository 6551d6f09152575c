"""The language server against pytest-lsp, with the capabilities of three editors. run.sh makes the project."""

import asyncio
import os
import pathlib

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

ROOT = pathlib.Path(os.environ["ROOT"])
COMMAND = [os.environ["STEELBANK"], "--project", str(ROOT), "--no-userinit", "--no-snapshot", "--system", "editors", "lsp", "--no-compile"]


@pytest_lsp.fixture(
    params=["neovim", "emacs", "visual-studio-code"], config=ClientServerConfig(server_command=COMMAND, server_env=dict(os.environ))
)
async def client(request, lsp_client: LanguageClient):
    folder = types.WorkspaceFolder(uri=ROOT.as_uri(), name="editors")
    await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities(request.param), root_uri=ROOT.as_uri(), workspace_folders=[folder]
        )
    )
    for _ in range(100):
        await asyncio.sleep(0.1)
        found = await lsp_client.workspace_symbol_async(types.WorkspaceSymbolParams(query="total"))
        if found:
            break
    yield
    await lsp_client.shutdown_session()


@pytest.mark.asyncio
async def test_places_are_those_of_the_buffer(client):
    uri = (ROOT / "cart.lisp").as_uri()
    text = (ROOT / "cart.lisp").read_text().replace("(defun", ";; 𝒳\n(defun", 1)
    item = types.TextDocumentItem(uri=uri, language_id="commonlisp", version=1, text=text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
    document = types.TextDocumentIdentifier(uri=uri)
    at = types.Position(line=3, character=25)
    found = await client.text_document_references_async(
        types.ReferenceParams(text_document=document, position=at, context=types.ReferenceContext(include_declaration=True))
    )
    places = sorted((place.uri.rsplit("/")[-1], place.range.start.line, place.range.start.character) for place in found)
    assert places == [("cart.lisp", 3, 24), ("shop.lisp", 0, 41), ("shop.lisp", 2, 7)]
    edit = await client.text_document_rename_async(types.RenameParams(text_document=document, position=at, new_name="cost"))
    assert sum(len(change.edits) for change in edit.document_changes) == 3
    hover = await client.text_document_hover_async(types.HoverParams(text_document=document, position=at))
    assert "editors:price" in hover.contents.value
    tokens = await client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(text_document=document))
    assert len(tokens.data) % 5 == 0 and tokens.data
    symbols = await client.text_document_document_symbol_async(types.DocumentSymbolParams(text_document=document))
    assert [symbol.name for symbol in symbols] == ["total"]
    completion = await client.text_document_completion_async(types.CompletionParams(text_document=document, position=types.Position(line=3, character=27)))
    assert "price" in [item.label for item in completion.items]
    # lsprotocol rejects an answer that is not of the protocol's type.
    whole = types.Range(start=types.Position(line=0, character=0), end=types.Position(line=4, character=0))
    spot = {"text_document": document, "position": at}
    assert await client.text_document_definition_async(types.DefinitionParams(**spot))
    assert await client.text_document_document_highlight_async(types.DocumentHighlightParams(**spot))
    assert (await client.text_document_prepare_rename_async(types.PrepareRenameParams(**spot))).placeholder == "price"
    items = await client.text_document_prepare_call_hierarchy_async(types.CallHierarchyPrepareParams(**spot))
    calls = await client.call_hierarchy_incoming_calls_async(types.CallHierarchyIncomingCallsParams(item=items[0]))
    assert [call.from_.name for call in calls] == ["total"]
    signature = await client.text_document_signature_help_async(
        types.SignatureHelpParams(text_document=document, position=types.Position(line=3, character=18))
    )
    assert signature.signatures
    lenses = await client.text_document_code_lens_async(types.CodeLensParams(text_document=document))
    assert (await client.code_lens_resolve_async(lenses[0])).command.title
    assert await client.text_document_folding_range_async(types.FoldingRangeParams(text_document=document))
    assert await client.text_document_selection_range_async(types.SelectionRangeParams(text_document=document, positions=[at]))
    await client.text_document_inlay_hint_async(types.InlayHintParams(text_document=document, range=whole))
    await client.text_document_code_action_async(
        types.CodeActionParams(text_document=document, range=whole, context=types.CodeActionContext(diagnostics=[]))
    )
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    await client.text_document_formatting_async(types.DocumentFormattingParams(text_document=document, options=options))
    report = await client.text_document_diagnostic_async(types.DocumentDiagnosticParams(text_document=document))
    assert report.kind == "full" and not report.items
