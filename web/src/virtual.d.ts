declare module "virtual:core" {
  const base64: string;
  export default base64;
}
declare module "virtual:measured" {
  const points: import("./answers.ts").Measured[];
  export default points;
}
declare module "*.css";
