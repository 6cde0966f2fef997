# Completion of tessera for bash. Verbs and options are read from the help of the program itself, so
# they are never out of date.

# The verbs, or the options of the verb $2, of the program $1.
_tessera_words() {
  if [[ -z $2 ]]; then
    "$1" --help 2>/dev/null |
      sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'
  else
    "$1" "$2" --help 2>/dev/null | sed -n 's/^  \(-[a-z],\)\{0,1\}\(--[a-z-]*\).*/\2/p'
  fi
}

# Folders, and files that end in one of the given ways, that begin like $1.
_tessera_files() {
  local word=$1 name end
  shift
  while IFS= read -r name; do
    if [[ -d $name ]]; then
      COMPREPLY+=("$name")
      continue
    fi
    for end in "$@"; do
      [[ $name == *"$end" ]] && COMPREPLY+=("$name")
    done
  done < <(compgen -f -- "$word")
}

# Those of the other arguments that begin like $1.
_tessera_choose() {
  local word=$1 name
  shift
  while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen -W "$*" -- "$word")
}

_tessera() {
  local program=${COMP_WORDS[0]} verb=${COMP_WORDS[1]}
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    [[ $word == -* ]] && _tessera_choose "$word" --help --help-all --version && return
    _tessera_choose "$word" "$(_tessera_words "$program")"
    return
  fi
  case $previous in
    --q | --k | --v | --bias | --mask | --alibi | --sink | --kv-lengths | --kv-starts | \
      --cache-batch-idx | --cu-seqlens-q | --cu-seqlens-k | --seqused-q | --seqused-k | \
      --pages | --out | --lse | --result)
      _tessera_files "$word" .npy .safetensors ;;
    --input | --state-in | --state-out) _tessera_files "$word" .safetensors ;;
    --picture) _tessera_files "$word" .svg ;;
    --align) _tessera_choose "$word" top-left bottom-right ;;
    --dtype) _tessera_choose "$word" f32 f16 bf16 ;;
    --backend) _tessera_choose "$word" auto cpu reference standard ;;
    --against) _tessera_choose "$word" standard ;;
    --pass) _tessera_choose "$word" forward backward decode ;;
    *) _tessera_choose "$word" "$(_tessera_words "$program" "$verb")" ;;
  esac
}

complete -o filenames -F _tessera tessera
