#!/usr/bin/env bash
# The demo shows what it promises, and what else lies in examples/ works as it stands.
# shellcheck source=tests/cluster/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/cluster/mfu.sh
. "$(dirname "$0")/mfu.sh"
examples=$(realpath examples)

# --- the demo, from a folder that is not the repository's

folders=$(mktemp -d) # where it makes its own
chmod 755 "$folders"
start=$SECONDS
out=$(cd / && TMPDIR=$folders "$examples/demo" "$build" 2>"$folders/err")
is $? 0 'demo: exit code 0'
diagnose "it took $((SECONDS - start)) s"
diagnose "$out"
is "$(cat "$folders/err")" '' 'demo: no complaint'
rm "$folders/err"
is "$(ls -A "$folders")" '' 'demo: nothing is left of it'
rmdir "$folders"

mapfile -t last < <(tail -n 4 <<<"$out")
like "${last[0]}" '^\$ sacct -j [0-9]+ -X -o ' 'demo: the last command is sacct'
like "${last[1]}" '^ *JobID +State +Elapsed +AdminComment *$' 'demo: its output ends it'
like "${last[3]}" '^ *[0-9]+ +COMPLETED +00:00:[0-9]{2} mfu/1 mfu=[0-9]+\.[0-9]% .* gpus=8xH100-SXM peak=989\.4\(bf16\) ' 'demo: with the MFU'
like "$out" 'replayed through a fake CUDA driver and CUPTI\.'$'\n''Slurm, its accounting and everything of slurm-mfu are real\.'$'\n\n''\$ sacct' \
    'demo: what is replayed and what is real stands in front of it'
like "$out" 'Checked, 15 figures: ' 'demo: it has checked its figures'
like "$out" $'\n''JOBID .* MFU .*'$'\n'' *[0-9]+ ' "demo: mfu-report's table"
is "$(awk '/^\$ (mfu-report|sacct)/ { exit } length > 120' <<<"$out")" '' 'demo: its own words fit into 120 columns'

# The check of figures is no ornament: on another GPU they are not those of an H100.
broken=$(mktemp -d)
chmod 755 "$broken"
out=$(TMPDIR=$broken FAKE_CUDA_DEVICE_NAME='NVIDIA A100-SXM4-80GB' examples/demo "$build" 2>&1)
is $? 1 'demo: a figure that is not as expected fails it'
like "$out" 'demo: mfu is [0-9]+\.[0-9]%!? in the line, and by the generator [0-9]+\.[0-9]%; ' 'demo: and is named'
out=$(examples/demo "$broken/none" 2>&1)
is $? 1 'demo: without a build it fails'
like "$out" 'make demo' 'demo: and says what to do'
rm -rf "$broken"

# --- plugstack.conf: with all its defaults spelled out

mfu_up update=10
defaults=$(sed -nE 's/^#   ([a-z]+=[^ ]+) .*/\1/p' examples/plugstack.conf | grep -vE '=(PATH|FILE)$' | grep -v '^spool=')
is "$(wc -l <<<"$defaults")" 8 'plugstack.conf: its defaults are found'
plugin=$(sed -nE 's/^optional .*\.so (.*)/\1/p' examples/plugstack.conf)
is "$plugin" inject=gpu 'plugstack.conf: its line is found'
mfu_plugin "$(grep -v '^inject=' <<<"$defaults" | tr '\n' ' ')"

# --- the recipes: each command succeeds and prints something

# shellcheck disable=SC2034 # the recipes use it
job=$(submit --account=ml --mfu-profile=flops-per-step=24661702213632,steps=20,precision=bf16 -n1 --gpus=1 --wrap "srun train --ranks 1 --steps 20")
idle=$(submit -n1 --gpus=1 --wrap "srun train --ranks 2 --steps 2 --sleep-after 1")
off=$(submit -n1 --gpus=1 --mfu-profile=off --wrap 'srun true')
for j in "$job" "$idle" "$off"; do wait_job "$j"; done
line "$job" 's=0' >/dev/null
line "$idle" 's=0' >/dev/null
# A job is in the time up to now from the second after its end on.
# shellcheck disable=SC2317 # wait_until calls it
in_the_week() { [[ $(sacct -a -X -n -S now-7days -o JobID | wc -l) == 3 ]]; }
wait_until 60 in_the_week

export job PATH=$build:$PATH
recipes=0
while IFS= read -r -d $'\x1f' recipe; do
    ((++recipes))
    out=$(bash -euc "$recipe" 2>&1)
    code=$?
    if [[ $code == 0 && -n $out ]]; then
        ok "recipe: ${recipe%%$'\n'*}"
    else
        not_ok "recipe: ${recipe%%$'\n'*}" "$recipe"$'\n'"exit code $code, output: $out"
    fi
    case $recipe in
    *--json*) is "$(jq -r '.. | .job_id? // empty' <<<"$out" | head -n 1)" "$job" 'recipe: JSON names the job' ;;
    *' idle='*) like "$out" " $idle root" 'recipe: the idle job is found' ;;
    *AllocTRES*) is "$(cut -d '|' -f1 <<<"$out")" "$off" 'recipe: the job without a line is found' ;;
    *'mfu=n/a'*) like "$out" '^ *1 mfu=n/a\(uncounted-kernels\)$' 'recipe: reasons are counted' ;;
    *mfu=*) like "$out" "^[0-9.]+% $job root\$" 'recipe: jobs by MFU' ;;
    esac
done < <(awk '/^```bash$/ { on = 1; next } /^```$/ { if (on) printf "\x1f"; on = 0 } on' examples/sacct-recipes.md)
is "$recipes" 12 'recipes: all are run'
done_testing
