#!/bin/sh
# Neovim 0.7.2 as LSP client: it refuses an edit for an older version of a text, but applies one for
# version 0, whatever the buffer's version is; it opens each file with version 0. Likely guess:
# every edit for an older version is refused.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch neovim=0.7.2-7 neovim-runtime=0.7.2-7 libmsgpackc2=4.0.0-3 libtermkey1=0.22-1 \
  libluajit-5.1-2=2.1.0~beta3+git20220320+dfsg-4.1+deb12u1 libtree-sitter0=0.20.7-1 \
  libunibilium4=2.1.0-1 libuv1=1.44.2-1+deb12u1 libvterm0=0.1.4-1 lua-luv=1.44.2-0-1
cat >try.lua <<'END'
vim.o.swapfile = false
vim.cmd('edit text.txt')
local buffer, versions = vim.api.nvim_get_current_buf(), vim.lsp.util.buf_versions
local start = { line = 0, character = 0 }
local function edited(version)
  vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'text' })
  versions[buffer] = 7
  vim.lsp.util.apply_text_document_edit({
    textDocument = { uri = vim.uri_from_bufnr(buffer), version = version },
    edits = { { range = { start = start, ['end'] = start }, newText = 'new ' } },
  }, nil, 'utf-16')
  return vim.api.nvim_buf_get_lines(0, 0, 1, false)[1]
end
io.stdout:write(string.format('\nseen: version 1 %s, version 0 %s\n', edited(1), edited(0)))
vim.cmd('qa!')
END
libraries=$work/root/usr/lib/x86_64-linux-gnu
HOME="$work" VIMRUNTIME="$work/root/usr/share/nvim/runtime" LD_LIBRARY_PATH="$libraries" \
  "$work/root/usr/bin/nvim" --headless -u NONE -c 'luafile try.lua' 2>&1 |
  expect 'seen: version 1 text, version 0 new text'
