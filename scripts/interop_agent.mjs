// A client made with the official agent SDK. It drives jp as it drives the SDK's own agent: text, tools,
// delegation, errors, permissions, resume, several messages, interrupt. Arguments: the SDK's module, jp,
// a workspace that scripts/interop.sh has filled.
const [sdk, jp, cwd] = process.argv.slice(2);
const { query } = await import(sdk);
const base = { pathToClaudeCodeExecutable: jp, executableArgs: ['query'], cwd, env: process.env };

function check(name, ok, got) {
	if (!ok) {
		console.log(`FAIL agent SDK: ${name}: ${JSON.stringify(got)}`);
		process.exit(1);
	}
	console.log(`ok   agent SDK: ${name}`);
}
// all returns the messages of a run, and the error that the SDK throws behind a result that tells of one.
async function all(prompt, options = {}) {
	const messages = [];
	let error;
	try {
		for await (const m of query({ prompt, options: { ...base, ...options } })) messages.push(m);
	} catch (e) {
		error = e;
	}
	return { messages, error, result: messages.filter((m) => m.type === 'result').at(-1), init: messages.find((m) => m.subtype === 'init') };
}
const user = (content) => ({ type: 'user', message: { role: 'user', content }, parent_tool_use_id: null });

let r = await all('hello');
check('text', !r.error && r.result.subtype === 'success' && r.result.result === 'First.', r);
// What the types of the SDK require of these messages.
const required = {
	init: { apiKeySource: 'string', cwd: 'string', tools: 'object', mcp_servers: 'object', model: 'string', permissionMode: 'string', slash_commands: 'object',
		output_style: 'string', skills: 'object', plugins: 'object', uuid: 'string', session_id: 'string' },
	result: { duration_ms: 'number', duration_api_ms: 'number', is_error: 'boolean', num_turns: 'number', result: 'string', stop_reason: 'string',
		total_cost_usd: 'number', usage: 'object', modelUsage: 'object', permission_denials: 'object', uuid: 'string', session_id: 'string' },
};
const lacks = (m, keys) => Object.entries(keys).filter(([k, t]) => typeof m[k] !== t || m[k] === null).map(([k]) => k);
check('keys of init', lacks(r.init, required.init).length === 0, lacks(r.init, required.init));
check('keys of result', lacks(r.result, required.result).length === 0, lacks(r.result, required.result));
check('uuid of every message', r.messages.every((m) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(m.uuid)), r.messages);
const first = r.result.session_id;

r = await all('and again', { resume: first });
check('resume', r.result.session_id === first && r.result.result === 'Second.', r);
r = await all('and again', { resume: first, forkSession: true });
check('fork', r.result.session_id !== first && r.result.result === 'Later.', r);
r = await all('hello');
check('each run begins anew', r.result.session_id !== first && r.result.result === 'First.', r);

r = await all('look', { includePartialMessages: true, settingSources: [], permissionMode: 'default', effort: 'low' });
const calls = r.messages.filter((m) => m.type === 'assistant').flatMap((m) => m.message.content).filter((b) => b.type === 'tool_use');
const results = r.messages.filter((m) => m.type === 'user').flatMap((m) => m.message.content).filter((b) => b.type === 'tool_result');
check('tools', calls.length === 2 && results.some((b) => b.content === 'a note\n' && b.tool_use_id === calls[0].id), r);
check('delegation', results.some((b) => b.content.includes('leaf') && b.tool_use_id === calls[1].id) && Object.keys(r.result.modelUsage).length === 2, r);
const deltas = r.messages.filter((m) => m.type === 'stream_event' && m.event.type === 'content_block_delta' && m.event.delta.type === 'text_delta');
check('partial messages', deltas.map((m) => m.event.delta.text).join('') === 'I look.Done.', r);

r = await all('data', { outputFormat: { type: 'json_schema', schema: { type: 'object' } }, persistSession: false, disallowedTools: ['jp_query'] });
check('schema', r.result.structured_output?.a === 1, r);
r = await all('shout', { systemPrompt: { type: 'preset', preset: 'claude_code', append: 'Be loud.' } });
check('a prompt of this run', r.result.result === 'LOUD', r);
r = await all('make', {});
check('denied tool', r.result.permission_denials.length === 1 && r.result.permission_denials[0].tool_name === 'fs_create_file', r);

const asked = [];
const canUseTool = (answer) => async (name, input, options) => {
	asked.push(`${options.title} ${JSON.stringify(input)} ${typeof options.toolUseID}`);
	return answer(input);
};
r = await all('make', { canUseTool: canUseTool(() => ({ behavior: 'deny', message: 'Not today.' })) });
check('canUseTool, asked', r.init.permissionMode === 'default' && asked.join() === 'fs_create_file x {"content":"y","overwrite":false,"path":"x"} string', [r, asked]);
const denial = (m) => m.messages.filter((x) => x.type === 'user').flatMap((x) => x.message.content).find((b) => b.type === 'tool_result');
check('canUseTool, no', r.result.permission_denials.length === 1 && denial(r).content.includes('Not today.'), r);
r = await all('make', { canUseTool: canUseTool((input) => ({ behavior: 'allow', updatedInput: { ...input, content: 'z' } })) });
check('canUseTool, changed arguments', r.result.permission_denials.length === 1 && denial(r).is_error, r);
r = await all('make', { canUseTool: canUseTool(() => { throw new Error('oops'); }) });
check('canUseTool, a failure', r.result.permission_denials.length === 1 && denial(r).content.includes('oops'), r);
r = await all('make', { canUseTool: canUseTool((input) => ({ behavior: 'allow', updatedInput: input })) });
check('canUseTool, yes', !r.error && r.result.permission_denials.length === 0 && !denial(r).is_error, r);

r = await all('fail');
check('error of the model', r.result.subtype === 'error_during_execution' && r.result.errors[0].includes('no key') && r.error?.message.includes('no key'), r);
r = await all('hello', { resume: 'jp-c17' });
check('no such conversation', r.error?.message.includes('jp-c17: not found'), r);
r = await all('loop', { maxTurns: 1 });
check('max turns', r.result.subtype === 'error_max_turns', r);
r = await all('hello', { systemPrompt: 'You are somebody else.' });
check('what is not there is refused', r.error?.message.includes('systemPrompt'), r);

r = await all((async function* () { yield user('hello'); yield user('and again'); })());
const answers = r.messages.filter((m) => m.type === 'result');
check('several messages', answers.map((m) => m.result).join() === 'First.,Second.', r);
const sum = answers.reduce((n, m) => n + m.usage.input_tokens, 0);
check('a running total', sum > 0 && answers[1].modelUsage['script/root.toml'].inputTokens === sum, answers);

// An interrupt ends the run that is under way; the session goes on.
let release;
const told = new Promise((resolve) => { release = resolve; });
const q = query({ prompt: (async function* () { yield user('wait'); await told; yield user('and again'); })(), options: base });
const ends = [];
for await (const m of q) {
	if (m.type === 'tool_call') {
		await q.interrupt();
		check('set_model is refused', await q.setModel('x').then(() => false, (e) => e.message.includes('set_model')), null);
		await q.setPermissionMode('default');
		check('a mode that permits more is refused', await q.setPermissionMode('bypassPermissions').then(() => false, () => true), null);
	}
	if (m.type === 'result') {
		ends.push(m);
		release();
	}
}
check('interrupt', ends.length === 2 && ends[0].is_error && ends[0].status === 'cancelled' && ends[1].result === 'Second.', ends);
