-- The test of run.sh with Neovim's client: references in an edited buffer, and a rename in two
-- files. Prints the results; run.sh compares them.
local root = vim.env.ROOT
vim.cmd('cd ' .. root)
vim.cmd('edit ' .. root .. '/cart.lisp')
local loaded = false
vim.lsp.handlers['$/progress'] = function(_, r) if r.value.kind == 'end' then loaded = true end end
-- The lines from the guide.
local page = io.open(vim.env.PAGES .. '/neovim.md'):read('*a')
local id = assert(loadstring(page:match('```lua\n(.-)```') .. 'return id'))()
vim.wait(60000, function() return loaded end)
local client = vim.lsp.get_client_by_id(id)
-- An unsaved line, with a character beyond the BMP.
vim.api.nvim_buf_set_lines(0, 1, 1, false, { ';; 𝒳' })
vim.api.nvim_win_set_cursor(0, { 4, 25 })
local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
params.context = { includeDeclaration = true }
local found = vim.lsp.buf_request_sync(0, 'textDocument/references', params, 20000)[id].result
local items = vim.lsp.util.locations_to_items(found, client.offset_encoding)
for _, item in ipairs(items) do
  io.stdout:write('reference ' .. item.filename:match('[^/]*$') .. ':' .. item.lnum .. ':' .. item.col .. '\n')
end
vim.lsp.buf.rename('cost')
vim.wait(10000, function() return vim.fn.bufloaded(root .. '/shop.lisp') == 1 end)
for _, name in ipairs({ 'shop.lisp', 'cart.lisp' }) do
  local lines = vim.api.nvim_buf_get_lines(vim.fn.bufnr(root .. '/' .. name), 0, -1, false)
  io.stdout:write('renamed ' .. name .. ' ' .. select(2, table.concat(lines, '\n'):gsub('cost', '')) .. '\n')
end
vim.cmd('qa!')
