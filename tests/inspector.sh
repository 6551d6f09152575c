#!/bin/sh
# Tests the server with the command line of the official MCP Inspector (from npm, pinned). It lists
# the tools and checks their schemas strictly, and calls each tool, in both lifecycles of the
# protocol.
#
# Usage: tests/inspector.sh [PROGRAM]. Needs npm. Prints "N passed, M failed" as the last line.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/npm.sh"
set_up_client "${1:-}" @modelcontextprotocol/inspector 2.12.0

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

# Runs the Inspector with these options: a method and its arguments. Its catalog stays in the
# scratch folder.
inspect() {
    PATH="$client/node_modules/.bin:$PATH" HOME="$scratch" STEELBANK_CACHE="$cache" \
        mcp-inspector --cli "$scratch/server" --protocol-era "$era" "$@" \
        >"$scratch/out" 2>"$scratch/err"
}

check() { # what is checked, what the answer must contain, and the Inspector's options
    what="$era: $1"
    wanted=$2
    shift 2
    if inspect "$@" && grep -qF -- "$wanted" "$scratch/out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED: %s (wanted: %s)\n' "$what" "$wanted"
        head -c 2000 "$scratch/out" "$scratch/err"
    fi
}

call() { # tool, its arguments as JSON, what the answer must contain
    check "$1 $2" "$3" --method tools/call --tool-name "$1" --tool-args-json "$2"
}

# A script, because the Inspector would parse the server's options as its options.
cat >"$scratch/server" <<END
#!/bin/sh
exec '$program' --project '$scratch/project' serve --allow-eval --allow-edits
END
chmod +x "$scratch/server"
mkdir "$scratch/project"
cat >"$scratch/project/sample.asd" <<'END'
(defsystem "sample" :components ((:file "sample")) :perform (test-op (o c) (print c)))
END
cat >"$scratch/project/sample.lisp" <<'END'
(defpackage "SAMPLE" (:use "CL"))
(in-package "SAMPLE")
(defun callee (x) (car x))
(defun caller (x) (callee x))
END

for era in legacy modern; do
    check 'tools/list --strict' '"describe-symbol"' --method tools/list --strict
    if grep -q . "$scratch/err"; then
        failed=$((failed + 1))
        printf 'FAILED: %s: the strict check has remarks\n' "$era"
        head -n 40 "$scratch/err"
    else
        passed=$((passed + 1))
    fi
    tools=$(sed -n 's/^      "name": "\([^"]*\)",$/\1/p' "$scratch/out")
    for tool in $tools; do
        case $tool in
            describe-symbol) call "$tool" '{"name": "mapcar", "package": "CL"}' 'COMMON-LISP::MAPCAR [FUNCTION]' ;;
            find-definition) call "$tool" '{"name": "cl:mapcar"}' 'LIST.LISP' ;;
            who-calls) call "$tool" '{"name": "mapcar", "package": "CL"}' 'Functions that call COMMON-LISP::MAPCAR' ;;
            who-references) call "$tool" '{"name": "*print-base*", "package": "CL"}' 'COMMON-LISP::WRITE' ;;
            path) call "$tool" '{"from": "sample::caller", "to": "sample::callee"}' '"found"' ;;
            interface) call "$tool" '{"path": "sample.lisp"}' '"isError": false' ;;
            status) call "$tool" '{}' 'Lisp is ' ;;
            load-system) call "$tool" '{"system": "sample"}' '"isError": false' ;;
            load-file) call "$tool" "{\"path\": \"$scratch/project/sample.lisp\"}" '"isError": false' ;;
            reload) call "$tool" '{}' '"isError": false' ;;
            list-systems) call "$tool" '{}' 'sample' ;;
            code-find-references) call "$tool" '{"symbol": "cl:mapcar", "project_only": false, "limit": 3}' 'references to cl:mapcar' ;;
            index_project) call "$tool" '{}' '"isError": false' ;;
            check) call "$tool" '{"system": "sample"}' '"loads": true' ;;
            apropos) call "$tool" '{"pattern": "mapca"}' 'cl:mapcar' ;;
            call-graph) call "$tool" '{"name": "cl:mapcar", "depth": 1}' '"isError": false' ;;
            macroexpand) call "$tool" '{"form": "(when 1 2)"}' '"isError": false' ;;
            outline) call "$tool" '{"path": "sample.lisp"}' 'sample::caller' ;;
            package-info) call "$tool" '{"package": "SAMPLE"}' '"isError": false' ;;
            refactor) call "$tool" '{"operation": "replace", "pattern": "(sample::callee ?x)", "with": "?x"}' '"edits": 1' ;;
            rename) call "$tool" '{"name": "sample::callee", "new_name": "called"}' 'sample.lisp' ;;
            restart-lisp) call "$tool" '{}' '"isError": false' ;;
            evaluate) call "$tool" '{"code": "(+ 1 2)"}' '3' ;;
            disassemble) call "$tool" '{"name": "cl:mapcar"}' 'disassembly for' ;;
            compiler-notes) call "$tool" '{"name": "sample::callee"}' '"isError": false' ;;
            run-tests) call "$tool" '{"system": "sample"}' 'test-op of sample' ;;
            inspect) call "$tool" '{"expression": "(list 1 2)"}' '"kind": "list"' ;;
            impact) call "$tool" '{"names": ["cl:mapcar"]}' '"isError": false' ;;
            edit-definition) call "$tool" '{"path": "sample.lisp", "definition": "caller", "operation": "replace", "text": "(defun caller (x) (callee x))"}' '"isError": false' ;;
            check-structure) call "$tool" '{"path": "sample.lisp"}' '"isError": false' ;;
            find_references) call "$tool" "{\"pattern\": \"callee\"}" 'sample.lisp' ;;
            *)
                failed=$((failed + 1))
                printf 'FAILED: %s: no call of the tool %s is written in %s\n' "$era" "$tool" "$0"
                ;;
        esac
    done
    check 'resources/list' '"steelbank:///file/sample.lisp"' --method resources/list
    check 'resources/templates/list' '"steelbank:///symbol/{name}"' --method resources/templates/list
    for uri in status systems file/sample.lisp package/sb-ext symbol/cl%3Amapcar symbol/%28setf%20cl:car%29; do
        check "resources/read $uri" '"mimeType": "text/plain"' --method resources/read --uri "steelbank:///$uri"
    done
    check 'prompts/list' '"review-change"' --method prompts/list
    check 'prompts/get' 'git diff main' --method prompts/get --prompt-name review-change --prompt-args revision=main
done

printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
